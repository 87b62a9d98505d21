package zone_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/zone"
)

type others map[string][]string

func (o others) LookupTXT(_ context.Context, name string) ([]string, error) {
	if found := o[name]; found != nil {
		return found, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

func TestRecordsOfTheFileComeBeforeThoseOfTheDNS(t *testing.T) {
	f := zone.File{Path: filepath.Join(t.TempDir(), zone.Name), Otherwise: others{"b.example.": {"of the DNS"}, "c.example.": {"of the DNS"}}}
	look := func(name string, want ...string) {
		t.Helper()
		if got, err := f.LookupTXT(t.Context(), name); !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	look("a.example.")
	look("b.example.", "of the DNS")
	content := "# a comment\n\na.example TXT one\nA.Example. TXT \"two\"\nb.example A 192.0.2.1\nc.example TXT its-own\nd.example TXT \"two words\"\nd.example TXT\n"
	if err := os.WriteFile(f.Path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	look("a.example.", "one", "two")
	look("b.example.", "of the DNS")
	look("c.example.", "its-own")
	look("d.example.")
}

// TestUnreadableFileIsNoAbsence: whoever asks learns that nobody knows.
func TestUnreadableFileIsNoAbsence(t *testing.T) {
	f := zone.File{Path: t.TempDir(), Otherwise: others{}}
	_, err := f.LookupTXT(t.Context(), "a.example.")
	if failed, ok := errors.AsType[*net.DNSError](err); !ok || failed.IsNotFound {
		t.Errorf("got %v", err)
	}
}

func TestSharedInstallationAsksTheDNSAlone(t *testing.T) {
	if its := zone.Of(config.Config{}); its != net.DefaultResolver {
		t.Errorf("it asks %v", its)
	}
	if its, ok := zone.Of(config.Config{DNSRecords: "records"}).(zone.File); !ok || its.Path != "records" || its.Otherwise != net.DefaultResolver {
		t.Errorf("it asks %v", its)
	}
}
