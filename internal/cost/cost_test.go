package cost

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gatewright/gatewright/shared/testing/golden"
)

const root = "../.."

// documents are the files that contain the tables.
var documents = []string{"docs/cost.md", "README.md"}

// tableMarker matches a table with the marks around it; `make goldens` writes the text between the marks.
var tableMarker = regexp.MustCompile(`(?s)(<!-- table: ([a-z ]+) -->\n).*?(<!-- end of the table -->)`)

func TestDocumentedTablesAreCurrent(t *testing.T) {
	m, err := read(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	want, err := tables(m)
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]int{}
	for _, name := range documents {
		path := filepath.Join(root, name)
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		markers := 0
		got := tableMarker.ReplaceAllStringFunc(string(raw), func(s string) string {
			parts := tableMarker.FindStringSubmatch(s)
			if _, ok := want[parts[2]]; !ok {
				t.Errorf("%s has a marker for the table %q, want only tables that tables() returns", name, parts[2])
				return s
			}
			markers++
			times[parts[2]]++
			return parts[1] + "\n" + want[parts[2]] + "\n" + parts[3]
		})
		if strings.Count(string(raw), "<!-- table: ") != markers {
			t.Errorf("%s has %d markers of tables, and %d of them with a valid name and an end; want all of them valid",
				name, strings.Count(string(raw), "<!-- table: "), markers)
		}
		golden.Equal(t, path, got)
	}
	for name := range want {
		if times[name] != 1 {
			t.Errorf("the documents have %d markers for the table %q, want 1", times[name], name)
		}
	}
}

// TestCostsMatchManualCalculations compares costs with values that were calculated by hand from the prices and the
// inputs.
func TestCostsMatchManualCalculations(t *testing.T) {
	gateway := requestKind{units: units{3, 0.1}, ms: 55, memoryMB: 512, logBytes: 500}
	// 3.50 + 0.20 + 55,000 s × 0.5 GB × $0.0000133334 + 3 × 0.125 + 0.1 × 0.625 + 0.5 GB × 0.50
	// = 3.50 + 0.20 + 0.36667 + 0.375 + 0.0625 + 0.25
	m := readRepository(t, "")
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"a million gateway requests", gateway.perMillion(), 4.75417},
		// 3.50 + 0.20 + 0.36667 + (0.9 + 0.28) GB × 0.50
		{"a million requests by the function", functionPerMillion(gateway), 4.65667},
		// 2 × 730 × (0.5 × 0.03238 + 0.00356) + 730 × (0.0225 + 0.006 + 4 × 0.005) + (5 + 2) × 0.10 + 0.30
		{"two gateways as processes", billTotal(gateways(m)), 28.835 + 35.405 + 0.70 + 0.30},
		// x a second: 4.65667 × 2.628 x + 5 × 2.628 (0.95 + 0.05 x) by the function, 65.24 + (0.0004 × 0.5 + 0.000003 × 0.5 × 0.02 ×
		// 1000) × 2628 x by processes
		{"requests a second at which both cost the same", breakEven(m, gateway), 4.29257},
		// 2,628 million: 333 × 3.50 + 667 × 2.80 + 1,628 × 2.38; 2,628 × (0.20 + 0.36667); (2,365.2 + 735.84) GB × 0.50; 50.95 × 2.628 × 5
		{"1,000 a second by the function", functionCost(gateway, 1000).total, 6907.74 + 1489.20 + 1182.60 + 367.92 + 669.48},
		{"X-Ray for 1,000 a second", functionCost(gateway, 1000).traces, 669.483},
		// 26,280 million, 23,652 GB: 333 × 3.50 + 667 × 2.80 + 19,000 × 2.38 + 6,280 × 1.51; 10,000 × 0.50 + 13,652 × 0.25, and 7,358.4
		// GB of access logs × 0.50
		{"10,000 a second by API Gateway", tieredCost(restTiers, 26_280*million), 1165.50 + 1867.60 + 45_220 + 9482.80},
		{"logs of 10,000 a second by the function", functionCost(gateway, 10_000).logs, 8413 + 3679.20},
		// 2 s of processors each second at 0.3 each: 7 tasks; 108 units; 10,512 GB × 0.50; 78,840 GB, half of it to the other zone, × 0.02
		{
			"10,000 a second by processes", processCost(m, 10_000).total,
			65.24 + 5*730*(0.5*0.03238+0.00356+0.005) + 107*730*0.006 + 5256 + 788.40,
		},
		{"tasks for 10,000 a second", processCost(m, 10_000).tasks, 7},
		{"tasks for 100 a second", processCost(m, 100).tasks, 2},
		{"traces of rare requests", sampled(0.25), 0.25},
		{"traces of 41 requests a second", sampled(41), 3},
		{"a gigabyte-second", lambdaTime(1000, 1000, 1024), 0.0133334},
		{"10,000 requests to KMS", dollars(kmsRequest, 10_000), 0.03},
	} {
		if math.Abs(c.got-c.want) > 1e-4*c.want {
			t.Errorf("%s = %.5f, want %.5f", c.name, c.got, c.want)
		}
	}
}

func TestReadParsesLedgersAndSummaries(t *testing.T) {
	m, err := read(fstest.MapFS{
		keysLedger: file("      reads  queries\ncheck a key            1        0        0     " +
			"    2.0          0.5\n"),
		"functions/things/testdata/ledger.txt": file("Service_read                       1        1        1       1.0   " +
			"      12.0\n"),
		installationSummary: file("alarms\n\nresources\n       2 AWS::KMS::Key\n"),
		"infra/testdata/functions/gateway.txt": file("GatewayFunction provided.al2023 arm64, 512 MB, 29 s, tracing " +
			"Active\n\nresources\n" +
			"      30 AWS::KMS::Key\n"),
		checkSummary: file("SyntheticcheckFunction provided.al2023 arm64, 128 MB, 30 s\n\nresources\n       3 " +
			"AWS::CloudWatch::Alarm\n       1 AWS::KMS::Key\n"),
		"infra/testdata/services/relay.txt": file("RelayService 2 tasks, 256 CPU units, 512 MB, ARM64, stopped after 120 " +
			"s\n\nalarms, by 3 metrics\n\nresources\n" +
			"       2 AWS::EC2::Subnet\n       1 AWS::ElasticLoadBalancingV2::LoadBalancer\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if m.keys["check a key"] != (units{2, 0.5}) || m.operations["Service_read"] != (units{1, 12}) {
		t.Errorf("read() ledgers = %v and %v, want \"check a key\" with {2 0.5} and Service_read with {1 12}", m.keys,
			m.operations)
	}
	if m.resources["AWS::KMS::Key"] != 32 || m.memoryMB["gateway"] != 512 {
		t.Errorf("read(): %v KMS keys and %v MB for the gateway, want 32 and 512", m.resources["AWS::KMS::Key"],
			m.memoryMB["gateway"])
	}
	if m.check["AWS::CloudWatch::Alarm"] != 3 || m.memoryMB[checkFunction] != 128 || m.checkCalls != hoursPerMonth*60 {
		t.Errorf("read(): check = %v with %v MB and %v calls, want 3 alarms, 128 MB and %d calls",
			m.check, m.memoryMB[checkFunction], m.checkCalls, hoursPerMonth*60)
	}
	if m.resources["AWS::CloudWatch::Alarm"] != 0 {
		t.Errorf("read(): %v alarms without a relay, want 0", m.resources["AWS::CloudWatch::Alarm"])
	}
	// 2 × 730 × (0.25 × 0.03238 + 0.5 × 0.00356) + 730 × (0.0225 + 4 × 0.005) + 3 × 0.10 + 0.30
	if got := billTotal(serviceItems(m, "relay")); math.Abs(got-46.0425) > 1e-4 {
		t.Errorf("billTotal(relay) = %.5f, want 46.0425", got)
	}
}

func TestMissingInputIsAnError(t *testing.T) {
	if _, err := read(fstest.MapFS{}); err == nil {
		t.Error("read() without ledgers = no error, want an error")
	}
	if _, err := read(fstest.MapFS{keysLedger: file("another form\n")}); err == nil {
		t.Error("read() of a ledger without rows = no error, want an error")
	}
	for _, name := range []string{"relay", "gateway"} {
		if _, err := tables(readRepository(t, name)); err == nil || !strings.Contains(err.Error(), "the service "+name) {
			t.Errorf("tables() without the service %s: error = %v, want one that names it", name, err)
		}
	}
	if _, err := tables(measured{}); err == nil || !strings.Contains(err.Error(), "check a key") {
		t.Errorf("tables() without ledger rows: error = %v, want one that names \"check a key\"", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("dollars() of an unknown price does not panic, want a panic")
		}
	}()
	dollars("air", 1)
}

// readRepository returns the values of the golden files, without the service with the name missing. The name can be "".
func readRepository(t *testing.T, missing string) measured {
	t.Helper()
	m, err := read(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	delete(m.services, missing)
	return m
}

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
