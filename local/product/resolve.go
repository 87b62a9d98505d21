package product

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"time"
)

// resolveTimeout bounds what is asked of the DNS at a start, which waits for nothing of it.
const resolveTimeout = 10 * time.Second

// resolver is net.DefaultResolver outside tests.
type resolver interface {
	LookupHost(ctx context.Context, host string) ([]string, error)
}

// tellResolution logs what the DNS has to have of a domain and lacks. The product serves all the same: it may be
// about to get it, be behind a balancer, or have clients that know better.
func tellResolution(ctx context.Context, domain string, dns resolver, own []net.Addr, log *slog.Logger) {
	within, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	for _, name := range []string{apiName(domain), anyDeployment + "." + domain} {
		found, err := dns.LookupHost(within, name)
		no, _ := errors.AsType[*net.DNSError](err)
		switch {
		case ctx.Err() != nil:
			return
		case no != nil && no.IsNotFound:
			log.WarnContext(ctx, "clients do not find this machine: give the name an address record in the DNS, and so each name below the domain", "name", name, "domain", domain, "error", err)
			return
		case err != nil:
			log.WarnContext(ctx, "whether clients find this machine is unknown: the DNS has not answered", "name", name, "error", err)
			return
		case !slices.ContainsFunc(found, func(at string) bool { return isOwn(at, own) }):
			log.WarnContext(ctx, "a name leads to no address of this machine: correct its DNS record, unless a balancer or a router is there that passes connections on",
				"name", name, "addresses", found)
			return
		}
	}
}

// anyDeployment stands for the names of deployments, which the DNS and a certificate have to have by a wildcard.
const anyDeployment = "any-deployment"

func isOwn(at string, own []net.Addr) bool {
	ip := net.ParseIP(at)
	return ip.IsLoopback() || slices.ContainsFunc(own, func(a net.Addr) bool {
		prefix, ok := a.(*net.IPNet)
		return ok && prefix.IP.Equal(ip)
	})
}
