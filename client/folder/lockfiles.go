package folder

import (
	"errors"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/lazy"
)

// lockFiles are those in which a package manager writes where each package came from.
var lockFiles = []string{"package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb", "deno.lock"}

func isLockFile(base string) bool { return slices.Contains(lockFiles, base) }

// address finds the host of each URL, whoever is named before it.
var address = lazy.Regexp(`https?://(?:[^\s"'/@<>]*@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)`)

// privateRegistry is the first host of a lock file that only this machine or its network reaches, "" if there is none:
// whoever builds elsewhere by such a file gets nothing, or other packages.
func (w *walk) privateRegistry(name string) (host string, err error) {
	f, err := w.root.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return privateHost(f)
}

// longestAddress is what is kept of a part for the next one, in which an address may end.
const longestAddress = 512

func privateHost(r io.Reader) (string, error) {
	buf := make([]byte, 0, 64<<10)
	for {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		atEnd := errors.Is(err, io.EOF)
		if err != nil && !atEnd {
			return "", err
		}
		for _, at := range address().FindAllSubmatchIndex(buf, -1) {
			if host := string(buf[at[2]:at[3]]); (at[1] < len(buf) || atEnd) && isPrivate(host) {
				return host, nil
			}
		}
		if atEnd {
			return "", nil
		}
		if len(buf) > longestAddress {
			buf = buf[:copy(buf, buf[len(buf)-longestAddress:])]
		}
	}
}

// isPrivate reports whether a host is this machine, or one of its network by its address.
func isPrivate(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	ip = ip.Unmap()
	return err == nil && (ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsUnspecified())
}
