package functionstest

import (
	"context"
	"net"
	"strings"

	"github.com/gatewright/gatewright/shared/customdomains"
	"github.com/gatewright/gatewright/shared/installation"
)

// names is the DNS of a world.
type names struct{ w *World }

var _ installation.Resolver = names{}

// LookupTXT implements installation.Resolver.
func (n names) LookupTXT(_ context.Context, name string) ([]string, error) {
	found := n.proofs
	if n.w.DNS != nil {
		found = n.w.DNS
	}
	if out := found(strings.TrimSuffix(name, ".")); out != nil {
		return out, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

// proofs are the texts that prove the custom domains at a name, whosever they are.
func (n names) proofs(name string) (out []string) {
	service := customdomains.Open(installation.Parts{Key: rootKey{}})
	for key := range n.w.Items.Snapshot() {
		rest, ok := strings.CutPrefix(key.PK, "custom-domain#")
		if !ok {
			continue
		}
		if proof, err := service.Proof(n.w.Context(), rest, key.SK); err == nil && proof.Name == name {
			out = append(out, proof.Value)
		}
	}
	return out
}
