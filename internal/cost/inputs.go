package cost

import (
	"bufio"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/functions/syntheticcheck"
)

// Assumptions: nothing here was measured in AWS. docs/cost.md states each.
const (
	upstreamMS          = 50 // how long an upstream takes to answer
	gatewayMS           = 5  // what the gateway adds to it
	readMS              = 15 // a management request that reads
	changeMS            = 30 // one that changes something
	sweepMS             = 20
	resetMS             = 200  // a cold start each time, and 16 queries one after the other
	buildMS             = 3000 // one second of it waits for the gateways
	platformLog         = 500  // bytes: what Lambda itself logs of a call
	scheduleLog         = 850  // with our line, which has a metric in it
	managementLog       = 1400 // with our line, which has metrics in it
	gatewayLog          = 900  // with our line
	accessLog           = 280  // a line of API Gateway's access log, with what CloudWatch bills for each line
	requestCPUus        = 200  // of a task's processor, for a request by TLS: three times and more what is measured here
	busyShare           = 0.6  // of its processors that a task is kept at: docs/decisions/0064-gateways-follow-their-processors.md
	requestKB           = 3    // a request and its answer, as the load balancer passes them on
	otherZone           = 0.5  // of it to a task in another zone: of two, evenly
	buildReads          = 20   // units
	buildWrites         = 50
	buildPuts           = 3
	buildGets           = 3
	requestsAConnection = 10
	admittedPerWrite    = 20 // strict limits: docs/decisions/0015-sizes-of-leases.md
	// A deployment's record is read by a gateway process once in half a second,
	// so before each request when requests are rare: the dearest case.
	deploymentReads  = 1.0
	tableKeyCalls    = 24 // an hour: DynamoDB's own calls to the table's KMS key
	operationMetrics = 4  // an operation: latency, errors, units read and written
	// What is counted of requests: docs/decisions/0044-rows-of-counts-are-rolled-up.md.
	rollupMS    = 20  // without work
	placeReads  = 1   // units: where a write goes, and nothing is yet
	callsAWrite = 100 // of a gateway that is called often
	writeUnits  = 5   // two items of a transaction, and an entry of an index
	mergeMS     = 50  // of a deployment in a minute
	mergeReads  = 12  // units: five rows, what waits, and a number
	mergeWrites = 30  // five rows of 2 KB, what waited, and a number, each twice
	// The check from another region: docs/decisions/0081-a-synthetic-check-runs-in-another-region.md.
	checkMS      = 1000 // two TLS handshakes and two requests at once, across an ocean
	checkMetrics = 3    // two checks, and the days of certificates
	checkLog     = 1900 // bytes: four lines of ours with metrics, and Lambda's own
)

// units are what the database is asked for, as a ledger has it.
type units struct{ reads, writes float64 }

// measured is what the goldens of other packages say.
type measured struct {
	keys, operations map[string]units
	// resources is how many of each type the templates have.
	resources map[string]float64
	// memoryMB of each function.
	memoryMB map[string]float64
	// services are those that an installation has where its context asks for them.
	services map[string]running
	// schedules are those that the functions declare.
	schedules []scheduled
	// check are the resources of the stack of the synthetic check, and checkCalls how often its function is called in a month.
	check      map[string]float64
	checkCalls float64
}

// checkFunction is the function of the synthetic check, as memoryMB has it.
const checkFunction = "syntheticcheck"

// running is a service: the fewest tasks that it has, each with thousandths of a processor (of which AWS has
// 1024) and megabytes, and what else is there for it alone.
type running struct {
	tasks, cpuUnits, memoryMB float64
	resources                 map[string]float64
	// alarmMetrics is how many metrics its alarms look at: one that adds up two costs as two.
	alarmMetrics float64
}

// The goldens, from the root of the repository.
const (
	keysLedger        = "shared/keys/testdata/ledger.txt"
	operationsLedgers = "functions/*/testdata/ledger.txt"
	// What the templates have: the installation's own, and a file for each function.
	installationSummary = "infra/testdata/template.txt"
	functionSummaries   = "infra/testdata/functions/*.txt"
	serviceSummaries    = "infra/testdata/services/*.txt"
	checkSummary        = "infra/testdata/check.txt"
)

// read reads the goldens.
func read(root fs.FS) (measured, error) {
	m := measured{operations: map[string]units{}, resources: map[string]float64{}, memoryMB: map[string]float64{}, services: map[string]running{}, check: map[string]float64{}}
	var err error
	if m.keys, err = readLedger(root, keysLedger); err != nil {
		return m, err
	}
	ledgers, err := fs.Glob(root, operationsLedgers)
	if err != nil {
		return m, fmt.Errorf("find the ledgers of operations: %w", err)
	}
	for _, path := range ledgers {
		rows, err := readLedger(root, path)
		if err != nil {
			return m, err
		}
		maps.Copy(m.operations, rows)
	}
	summaries, err := fs.Glob(root, functionSummaries)
	if err != nil {
		return m, fmt.Errorf("list %s: %w", functionSummaries, err)
	}
	for _, summary := range append(summaries, installationSummary) {
		if err := countResources(root, summary, m.resources); err != nil {
			return m, err
		}
	}
	if err := countResources(root, checkSummary, m.check); err != nil {
		return m, err
	}
	for _, summary := range append(summaries, checkSummary) {
		err := eachMatch(root, summary, `^([A-Za-z]+)Function +\S+ \S+ (\d+) MB`, func(groups []string, n []float64) {
			m.memoryMB[strings.ToLower(groups[0])] = n[1]
		})
		if err != nil {
			return m, err
		}
	}
	services, err := fs.Glob(root, serviceSummaries)
	if err != nil {
		return m, fmt.Errorf("list %s: %w", serviceSummaries, err)
	}
	for _, summary := range services {
		of, name := running{resources: map[string]float64{}}, ""
		err := eachMatch(root, summary, `^([A-Za-z]+)Service (\d+)(?: to \d+)? tasks, (\d+) CPU units, (\d+) MB`, func(groups []string, n []float64) {
			name, of.tasks, of.cpuUnits, of.memoryMB = strings.ToLower(groups[0]), n[1], n[2], n[3]
		})
		if err != nil {
			return m, err
		}
		if err := eachMatch(root, summary, `^alarms, by (\d+) metrics$`, func(_ []string, n []float64) { of.alarmMetrics = n[0] }); err != nil {
			return m, err
		}
		if err := countResources(root, summary, of.resources); err != nil {
			return m, err
		}
		m.services[name] = of
	}
	if m.checkCalls, err = callsPerMonth(*syntheticcheck.Function.On[0].Schedule); err != nil {
		return m, err
	}
	m.schedules, err = schedules(functions.Triggered())
	return m, err
}

// countResources adds the counts of a summary's resources, by their types.
func countResources(root fs.FS, summary string, to map[string]float64) error {
	return eachMatch(root, summary, `^ +(\d+) (AWS::\S+)$`, func(groups []string, n []float64) { to[groups[1]] += n[0] })
}

// readLedger reads the rows of a ledger: a name, three counts of calls, and the
// units read and written.
func readLedger(root fs.FS, path string) (map[string]units, error) {
	rows := map[string]units{}
	err := eachMatch(root, path, `^(\S.*?) +\d+ +\d+ +\d+ +([\d.]+) +([\d.]+)$`, func(groups []string, n []float64) {
		rows[groups[0]] = units{n[1], n[2]}
	})
	return rows, err
}

// eachMatch calls found with the groups of each line that matches, and with
// those that are numbers as such. A file without such a line is an error.
func eachMatch(root fs.FS, path, pattern string, found func(groups []string, numbers []float64)) error {
	file, err := root.Open(path)
	if err != nil {
		return fmt.Errorf("read what was measured: %w", err)
	}
	defer func() { _ = file.Close() }()
	matching, times := regexp.MustCompile(pattern), 0
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		match := matching.FindStringSubmatch(lines.Text())
		if match == nil {
			continue
		}
		times++
		numbers := make([]float64, len(match)-1)
		for i, text := range match[1:] {
			if n, err := strconv.ParseFloat(text, 64); err == nil {
				numbers[i] = n
			}
		}
		found(match[1:], numbers)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if times == 0 {
		return fmt.Errorf("read %s: no line matches %s", path, pattern)
	}
	return nil
}
