package product

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"time"
)

// resolveTimeout is the maximum time of the DNS lookups at a start, which run in the background.
const resolveTimeout = 10 * time.Second

// resolver is net.DefaultResolver outside tests.
type resolver interface {
	LookupHost(ctx context.Context, host string) ([]string, error)
}

// checkResolution logs a warning if the API's name or an example of a deployment's name does not resolve to this
// machine, or if the DNS does not respond. It logs at most one warning. This is not an error: the DNS records may be
// created later, the machine may be behind a load balancer, and clients may use another DNS.
func checkResolution(ctx context.Context, domain string, dns resolver, localAddrs []net.Addr, log *slog.Logger) {
	lookupCtx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	for _, name := range []string{apiName(domain), anyDeployment + "." + domain} {
		addrs, err := dns.LookupHost(lookupCtx, name)
		dnsErr, _ := errors.AsType[*net.DNSError](err)
		switch {
		case ctx.Err() != nil:
			return
		case dnsErr != nil && dnsErr.IsNotFound:
			log.WarnContext(ctx, "clients do not find this machine: give the name an address record in the DNS, and so each "+
				"name below the domain", "name", name, "domain", domain, "error", err)
			return
		case err != nil:
			log.WarnContext(ctx, "whether clients find this machine is unknown: the DNS has not answered", "name", name, "error",
				err)
			return
		case !slices.ContainsFunc(addrs, func(address string) bool { return isLocalAddr(address, localAddrs) }):
			log.WarnContext(ctx, "a name leads to no address of this machine: correct its DNS record, unless a balancer or a "+
				"router is there that passes connections on",
				"name", name, "addresses", addrs)
			return
		}
	}
}

// anyDeployment is an example of a deployment's label, for checks whether the DNS and the certificate have a wildcard
// for the names of deployments.
const anyDeployment = "any-deployment"

// isLocalAddr reports whether an IP address is a loopback address or one of localAddrs.
func isLocalAddr(address string, localAddrs []net.Addr) bool {
	ip := net.ParseIP(address)
	return ip.IsLoopback() || slices.ContainsFunc(localAddrs, func(a net.Addr) bool {
		prefix, ok := a.(*net.IPNet)
		return ok && prefix.IP.Equal(ip)
	})
}
