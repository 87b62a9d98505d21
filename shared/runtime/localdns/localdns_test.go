package localdns_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/runtime/localdns"
)

type fakeResolver map[string][]string

func (f fakeResolver) LookupTXT(_ context.Context, name string) ([]string, error) {
	if records := f[name]; records != nil {
		return records, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

func TestFileRecordsTakePrecedenceOverDNS(t *testing.T) {
	f := localdns.File{
		Path:     filepath.Join(t.TempDir(), localdns.FileName),
		Fallback: fakeResolver{"b.example.": {"of the DNS"}, "c.example.": {"of the DNS"}},
	}
	checkLookup := func(name string, want ...string) {
		t.Helper()
		if got, err := f.LookupTXT(t.Context(), name); !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("LookupTXT(%s) = %q, %v, want %q and success %t", name, got, err, want, want != nil)
		}
	}
	checkLookup("a.example.")
	checkLookup("b.example.", "of the DNS")
	content := "# a comment\n\na.example TXT one\nA.Example. TXT \"two\"\nb.example A 192.0.2.1\nc.example TXT " +
		"its-own\nd.example TXT \"two words\"\nd.example TXT\n"
	if err := os.WriteFile(f.Path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	checkLookup("a.example.", "one", "two")
	checkLookup("b.example.", "of the DNS")
	checkLookup("c.example.", "its-own")
	checkLookup("d.example.")
}

// TestUnreadableFileIsAnError checks that a file that cannot be read is an error, and not the same as a missing record.
func TestUnreadableFileIsAnError(t *testing.T) {
	f := localdns.File{Path: t.TempDir(), Fallback: fakeResolver{}}
	_, err := f.LookupTXT(t.Context(), "a.example.")
	if dnsErr, ok := errors.AsType[*net.DNSError](err); !ok || dnsErr.IsNotFound {
		t.Errorf("LookupTXT(unreadable file) = %v, want a DNSError other than not found", err)
	}
}

func TestResolverFor(t *testing.T) {
	if resolver := localdns.ResolverFor(config.Config{}); resolver != net.DefaultResolver {
		t.Errorf("ResolverFor(no file) = %v, want net.DefaultResolver", resolver)
	}
	if resolver, ok := localdns.ResolverFor(config.Config{DNSRecords: "records"}).(localdns.File); !ok ||
		resolver.Path != "records" || resolver.Fallback != net.DefaultResolver {
		t.Errorf("ResolverFor(records) = %v, want the file with the fallback net.DefaultResolver", resolver)
	}
}
