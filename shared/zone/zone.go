// Package zone answers the DNS's questions from a file, for the local run: who tries custom
// domains out on a machine has no zone to set their TXT records in. Names that the file does
// not have are asked of the DNS.
//
// What it is not: a DNS server, or for a shared installation, where whoever writes the file
// owns every hostname. This file is all of it.
package zone

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/installation"
)

// Name is the file's in a data directory.
const Name = "dns-records"

// File is a Resolver over a file of lines such as
//
//	_gatewright.api.example.com TXT "the text"
//
// with or without quotes. It is read anew for each question. Lines of other forms mean nothing.
type File struct {
	// Path is the file's; where there is none, it is empty.
	Path string
	// Otherwise answers for the names that the file does not have.
	Otherwise installation.Resolver
}

var _ installation.Resolver = File{}

// Of gives the Resolver of a process.
func Of(c config.Config) installation.Resolver {
	if c.DNSRecords == "" {
		return net.DefaultResolver
	}
	return File{Path: c.DNSRecords, Otherwise: net.DefaultResolver}
}

// LookupTXT implements installation.Resolver.
func (f File) LookupTXT(ctx context.Context, name string) ([]string, error) {
	content, err := os.ReadFile(f.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &net.DNSError{Err: err.Error(), Name: name, Server: f.Path}
	}
	var found []string
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) == 3 && fields[1] == "TXT" && same(fields[0], name) {
			found = append(found, strings.Trim(fields[2], `"`))
		}
	}
	if found != nil {
		return found, nil
	}
	return f.Otherwise.LookupTXT(ctx, name)
}

func same(a, b string) bool {
	return strings.EqualFold(strings.TrimSuffix(a, "."), strings.TrimSuffix(b, "."))
}
