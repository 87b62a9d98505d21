// Package localdns resolves TXT records from a file, for the local run: a developer who tries custom domains
// on a laptop has no DNS zone for their TXT records. Names that are not in the file are looked up in the DNS.
//
// The package is not a DNS server. It is not for shared installations either: a user with
// write access to the file could claim every host name. The package has this file only.
package localdns

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
)

// FileName is the name of the file in a data directory.
const FileName = "dns-records"

// File is a Resolver that reads a file of lines such as
//
//	_gatewright.api.example.com TXT "text"
//
// with or without quotes, and without spaces in the text. It reads the file for each query, and ignores lines of other
// forms.
type File struct {
	// Path is the path of the file. A missing file is the same as an empty one.
	Path string
	// Fallback resolves the names that are not in the file.
	Fallback installation.Resolver
}

var _ installation.Resolver = File{}

// ResolverFor returns the Resolver for a configuration: a File if c.DNSRecords names one, and otherwise the system's
// resolver.
func ResolverFor(c config.Config) installation.Resolver {
	if c.DNSRecords == "" {
		return net.DefaultResolver
	}
	return File{Path: c.DNSRecords, Fallback: net.DefaultResolver}
}

// LookupTXT implements installation.Resolver.
func (f File) LookupTXT(ctx context.Context, name string) ([]string, error) {
	content, err := os.ReadFile(f.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &net.DNSError{Err: err.Error(), Name: name, Server: f.Path}
	}
	var records []string
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) == 3 && fields[1] == "TXT" && sameName(fields[0], name) {
			records = append(records, strings.Trim(fields[2], `"`))
		}
	}
	if records != nil {
		return records, nil
	}
	return f.Fallback.LookupTXT(ctx, name)
}

func sameName(a, b string) bool {
	return strings.EqualFold(strings.TrimSuffix(a, "."), strings.TrimSuffix(b, "."))
}
