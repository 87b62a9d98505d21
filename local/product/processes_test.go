package product

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/limits"
)

// TestProcessesReceiveTheConfiguration checks that variablesOf passes all fields of the configuration that a run can
// set to the processes. Otherwise a setting would only have an effect if functions run in one process.
func TestProcessesReceiveTheConfiguration(t *testing.T) {
	// A run with functions as processes does not set these fields.
	unsetFields := []string{
		"KMSKey", "APIDomain", "DecodedPaths", "Streaming", "DocsEmbeddings", "DocsAnswers",
		"DocsAnswersADay", "BedrockEndpoint",
	}
	c := config.Config{
		Table: "table", Bucket: "bucket", KeyFile: "key", DeploymentURL: "http://{deployment}.localhost:9001",
		DNSRecords:    "records",
		ACMEDirectory: "https://acme.example.com/directory", APIURL: "http://127.0.0.1:9000",
		Origins:          []string{"http://localhost:6274", "https://a.example.com"},
		DynamoDBEndpoint: "http://127.0.0.1:8000", S3Endpoint: "http://127.0.0.1:8001",
		S3PublicEndpoint: "http://127.0.0.1:8002",
		PrivateUpstreams: true, Relay: "http://127.0.0.1:9003", DocsWeights: "weights", HeaderUnderscores: true,
		HeaderBytes: 16 << 10, HeaderFields: 50, StandardHTTP: true,
		Limits:         limits.Values{"projects": 5, "requests": 50},
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")},
	}
	env := variablesOf(c, func(string) string { return "" })
	got, err := config.FromEnvironment(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	want, received := reflect.ValueOf(c), reflect.ValueOf(got)
	for i := range want.NumField() {
		name := want.Type().Field(i).Name
		if slices.Contains(unsetFields, name) {
			continue
		}
		if want.Field(i).IsZero() {
			t.Errorf("field %s is zero in this test, want a value", name)
		}
		if !reflect.DeepEqual(want.Field(i).Interface(), received.Field(i).Interface()) {
			t.Errorf("%s that processes receive = %v, want %v", name, received.Field(i), want.Field(i))
		}
	}
}
