package parameters_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/runtime/cloud/parameters"
)

// TestParameterIsReadDecrypted checks that Read requests the decrypted value, and that its errors name the parameter.
func TestParameterIsReadDecrypted(t *testing.T) {
	const name = "/gatewright/dev/check-key"
	for reply, want := range map[string]string{
		`{"Parameter":{"Name":"` + name + `","Value":"secret"}}`: "secret",
		`{"Parameter":{"Name":"` + name + `","Value":""}}`:       "",
		`{}`:                             "",
		`{"__type":"ParameterNotFound"}`: "",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var in struct {
				Name           string
				WithDecryption bool
			}
			body, _ := io.ReadAll(r.Body)
			if err := json.Unmarshal(body, &in); err != nil || in.Name != name || !in.WithDecryption ||
				r.Header.Get("X-Amz-Target") != "AmazonSSM.GetParameter" {
				t.Errorf("request = %s with the target %s, want AmazonSSM.GetParameter of %s with decryption",
					body, r.Header.Get("X-Amz-Target"), name)
			}
			if strings.Contains(reply, "__type") {
				w.WriteHeader(http.StatusBadRequest)
			}
			_, _ = io.WriteString(w, reply)
		}))
		env := map[string]string{
			"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key",
			"AWS_ENDPOINT_URL": server.URL,
		}
		store, err := parameters.Open(func(name string) string { return env[name] })
		if err != nil {
			t.Fatal(err)
		}
		got, err := store.Read(t.Context(), name)
		if got != want || (err != nil) != (want == "") || err != nil && !strings.Contains(err.Error(), name) {
			t.Errorf("Read() of %s = %q, %v, want %q or an error that names the parameter", reply, got, err, want)
		}
		server.Close()
	}
	if _, err := parameters.Open(func(string) string { return "" }); err == nil {
		t.Error("Open() without a region = nil, want an error")
	}
}
