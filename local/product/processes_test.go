package product

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/limits"
)

// TestProcessesAreToldTheConfiguration: what a process is not told holds in the run that is one process alone.
func TestProcessesAreToldTheConfiguration(t *testing.T) {
	// Which no local run has.
	elsewhere := []string{"KMSKey", "APIDomain", "DecodedPaths", "Streaming", "DocsEmbeddings", "DocsAnswers", "DocsAnswersADay", "BedrockEndpoint"}
	c := config.Config{
		Table: "table", Bucket: "bucket", KeyFile: "key", DeploymentURL: "http://{deployment}.localhost:9001", DNSRecords: "records",
		ACMEDirectory: "https://acme.example.com/directory", APIURL: "http://127.0.0.1:9000", Origins: []string{"http://localhost:6274", "https://a.example.com"},
		DynamoDBEndpoint: "http://127.0.0.1:8000", S3Endpoint: "http://127.0.0.1:8001", S3PublicEndpoint: "http://127.0.0.1:8002",
		PrivateUpstreams: true, Relay: "http://127.0.0.1:9003", DocsWeights: "weights", HeaderUnderscores: true, HeaderBytes: 16 << 10, HeaderFields: 50, StandardHTTP: true,
		Limits:         limits.Values{"projects": 5, "requests": 50},
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")},
	}
	told := variablesOf(c, func(string) string { return "" })
	got, err := config.FromEnvironment(func(name string) string { return told[name] })
	if err != nil {
		t.Fatal(err)
	}
	want, read := reflect.ValueOf(c), reflect.ValueOf(got)
	for i := range want.NumField() {
		name := want.Type().Field(i).Name
		if slices.Contains(elsewhere, name) {
			continue
		}
		if want.Field(i).IsZero() {
			t.Errorf("give %s a value here", name)
		}
		if !reflect.DeepEqual(want.Field(i).Interface(), read.Field(i).Interface()) {
			t.Errorf("%s is %v, and processes are told %v", name, want.Field(i), read.Field(i))
		}
	}
}
