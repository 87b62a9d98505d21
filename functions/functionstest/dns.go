package functionstest

import (
	"context"
	"net"
	"strings"

	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/resource/customdomains"
)

// resolver is the DNS of a fixture. It looks up TXT records with Fixture.DNS or, if that is nil, with proofs.
type resolver struct{ fx *Fixture }

var _ installation.Resolver = resolver{}

// LookupTXT implements installation.Resolver.
func (r resolver) LookupTXT(_ context.Context, name string) ([]string, error) {
	lookup := r.proofs
	if r.fx.DNS != nil {
		lookup = r.fx.DNS
	}
	if out := lookup(strings.TrimSuffix(name, ".")); out != nil {
		return out, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

// proofs returns the TXT records with this name that prove the ownership of a custom domain. There is one record for
// each account that has the custom domain.
func (r resolver) proofs(name string) (out []string) {
	service := customdomains.Open(installation.Parts{Key: rootKey{}})
	for key := range r.fx.Items.Snapshot() {
		account, ok := strings.CutPrefix(key.PK, "custom-domain#")
		if !ok {
			continue
		}
		if proof, err := service.Proof(r.fx.Context(), account, key.SK); err == nil && proof.Name == name {
			out = append(out, proof.Value)
		}
	}
	return out
}
