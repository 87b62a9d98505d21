package commands_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/profile"
)

// TestLoginKeepsWhatOthersHaveKept has another login be done while the installation looks at the key.
func TestLoginKeepsWhatOthersHaveKept(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := (&profile.Profiles{Profiles: map[string]profile.Profile{"other": {URL: "https://a.example.com"}}}).Save(l.profiles); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, `{"sub":"k","account":"acme"}`)
	}))
	t.Cleanup(server.Close)
	if got := l.run(l.key, "login", server.URL, "--name", "mine", "--key-stdin"); got.code != exit.OK {
		t.Fatalf("%+v", got)
	}
	kept, err := profile.Load(l.profiles)
	if err != nil || !slices.Equal(kept.Names(), []string{"mine", "other"}) || kept.Current != "mine" {
		t.Errorf("it keeps %v, %v", kept, err)
	}
}
