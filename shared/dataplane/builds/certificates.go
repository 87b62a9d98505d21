package builds

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/handler"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/resource/deployments"
	"github.com/gatewright/gatewright/shared/resource/upstreamcerts"
)

// Certificates looks up the client certificates of projects.
type Certificates interface {
	// Usable returns all certificates of a project, by their names, with the information whether each is enabled.
	Usable(ctx context.Context, accountID, project string,
		kind environment.Kind) (map[string]upstreamcerts.Usable, error)
	// Unseal returns a certificate's chain and private key in PEM.
	Unseal(ctx context.Context, accountID, project, id string) (chain, key string, err error)
	// ServingWrites returns writes for the commit that makes a build with these certificates the served one. ok is false
	// if a certificate was deleted or is not enabled for the kind of environment.
	ServingWrites(ctx context.Context, accountID, project string, kind environment.Kind,
		ids []string) (writes []store.Write, ok bool, err error)
}

var _ Certificates = (*upstreamcerts.Service)(nil)

// bindCertificates finds the client certificates that the artifact's handlers present to their upstreams,
// and adds them to the artifact. A certificate that is unknown or not enabled for the kind of environment
// is a problem. variables has the values that were substituted into the options. Problems redact them.
func (b *Builder) bindCertificates(
	ctx context.Context, in deployments.BuildInput, a *project.Artifact, variables map[string]string,
) ([]project.Problem, error) {
	var known map[string]upstreamcerts.Usable
	var problems []project.Problem
	for _, r := range a.Routes {
		name, optionPointer := handler.CertificateOption(r.Handler)
		if name == "" {
			continue
		}
		if known == nil {
			var err error
			if known, err = b.options.Certificates.Usable(ctx, in.AccountID, in.Project, in.Kind); err != nil {
				return nil, fmt.Errorf("find mTLS certificates: %w", err)
			}
		}
		if message := certificateProblem(name, known, in.Kind, variables); message != "" {
			problems = append(problems, project.Problem{
				File: r.Source.File,
				Path: r.Source.Pointer + "/x-gateway-route/handler" + optionPointer, Message: message,
			})
			continue
		}
		if _, bound := a.Certificates[name]; bound {
			continue
		}
		certificate := project.ClientCertificate{ID: known[name].ID}
		var err error
		if certificate.Chain, certificate.Key, err = b.options.Certificates.Unseal(ctx, in.AccountID, in.Project,
			certificate.ID); err != nil {
			return nil, fmt.Errorf("open an mTLS certificate: %w", err)
		}
		if a.Certificates == nil {
			a.Certificates = map[string]project.ClientCertificate{}
		}
		a.Certificates[name] = certificate
	}
	return problems, nil
}

// certificateProblem returns the message about a certificate that a
// build cannot use. It returns "" for a certificate that it can use.
func certificateProblem(
	name string, known map[string]upstreamcerts.Usable, kind environment.Kind, variables map[string]string,
) string {
	certificate, ok := known[name]
	switch {
	case !ok && len(known) == 0:
		return fmt.Sprintf("Upload the mTLS certificate %q first: the project has none.",
			project.RedactVariables(name, variables))
	case !ok:
		return fmt.Sprintf("Name an mTLS certificate of the project: there is no %q. There are %s.",
			project.RedactVariables(name, variables), strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	case !certificate.Enabled:
		return fmt.Sprintf("Enable the mTLS certificate %q for %s: this environment is of that kind.",
			project.RedactVariables(name, variables), kind)
	}
	return ""
}

// certificateIDs returns the IDs of an artifact's certificates.
func certificateIDs(a *project.Artifact) []string {
	var out []string
	for _, c := range a.Certificates {
		out = append(out, c.ID)
	}
	slices.Sort(out)
	return out
}
