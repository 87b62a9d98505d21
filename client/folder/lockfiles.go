package folder

import (
	"errors"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/base/lazy"
)

// lockFiles are the files that package managers write with the address of each package.
var lockFiles = []string{
	"package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock",
	"bun.lockb", "deno.lock",
}

func isLockFile(base string) bool { return slices.Contains(lockFiles, base) }

// urlPattern matches the beginning of URLs and captures their hosts. It skips a user name and password.
var urlPattern = lazy.Regexp(`https?://(?:[^\s"'/@<>]*@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)`)

// privateRegistry returns the first host in a lock file that only this machine or its network can reach, "" for none. A
// build elsewhere would fail with this lock file, or get other packages.
func (w *walk) privateRegistry(name string) (host string, err error) {
	f, err := w.root.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return privateHost(f)
}

// maxURLLength is the number of bytes that are kept from one read to the next, because a URL can continue in the next
// read.
const maxURLLength = 512

// privateHost returns the first host in a text that isPrivate reports, "" for none.
func privateHost(r io.Reader) (string, error) {
	buf := make([]byte, 0, 64<<10)
	for {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		atEnd := errors.Is(err, io.EOF)
		if err != nil && !atEnd {
			return "", err
		}
		for _, match := range urlPattern().FindAllSubmatchIndex(buf, -1) {
			if host := string(buf[match[2]:match[3]]); (match[1] < len(buf) || atEnd) && isPrivate(host) {
				return host, nil
			}
		}
		if atEnd {
			return "", nil
		}
		if len(buf) > maxURLLength {
			buf = buf[:copy(buf, buf[len(buf)-maxURLLength:])]
		}
	}
}

// isPrivate reports whether a host is this machine, or has a private address.
func isPrivate(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	ip = ip.Unmap()
	return err == nil && (ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsUnspecified())
}
