package builds

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/gateway/handler"
	"github.com/gatewright/gatewright/shared/mtlscertificates"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/store"
)

// Certificates are the client certificates of projects.
type Certificates interface {
	Usable(ctx context.Context, accountID, project string, kind environment.Kind) (map[string]mtlscertificates.Usable, error)
	Unseal(ctx context.Context, accountID, project, id string) (chain, key string, err error)
	Serving(ctx context.Context, accountID, project string, kind environment.Kind, ids []string) (writes []store.Write, ok bool, err error)
}

var _ Certificates = (*mtlscertificates.Service)(nil)

// bindCertificates finds the client certificates that the artifact's handlers show to
// their upstreams, and puts them into it. One that is unknown, or not enabled for the
// kind of environment, is a problem. variables are what the options were resolved
// with: no problem repeats one's value.
func (b *Builder) bindCertificates(ctx context.Context, in deployments.BuildInput, a *project.Artifact, variables map[string]string) ([]project.Problem, error) {
	var known map[string]mtlscertificates.Usable
	var problems []project.Problem
	for _, r := range a.Routes {
		name, option := handler.WantedCertificate(r.Handler)
		if name == "" {
			continue
		}
		if known == nil {
			var err error
			if known, err = b.o.Certificates.Usable(ctx, in.AccountID, in.Project, in.Kind); err != nil {
				return nil, fmt.Errorf("find mTLS certificates: %w", err)
			}
		}
		if wrong := wrongCertificate(name, known, in.Kind, variables); wrong != "" {
			problems = append(problems, project.Problem{File: r.Source.File, Path: r.Source.Pointer + "/x-gateway-route/handler" + option, Message: wrong})
			continue
		}
		if _, bound := a.Certificates[name]; bound {
			continue
		}
		its := project.ClientCertificate{ID: known[name].ID}
		var err error
		if its.Chain, its.Key, err = b.o.Certificates.Unseal(ctx, in.AccountID, in.Project, its.ID); err != nil {
			return nil, fmt.Errorf("open an mTLS certificate: %w", err)
		}
		if a.Certificates == nil {
			a.Certificates = map[string]project.ClientCertificate{}
		}
		a.Certificates[name] = its
	}
	return problems, nil
}

func wrongCertificate(name string, known map[string]mtlscertificates.Usable, kind environment.Kind, variables map[string]string) string {
	its, ok := known[name]
	switch {
	case !ok && len(known) == 0:
		return fmt.Sprintf("Upload the mTLS certificate %q first: the project has none.", project.Concealed(name, variables))
	case !ok:
		return fmt.Sprintf("Name an mTLS certificate of the project: there is no %q. There are %s.",
			project.Concealed(name, variables), strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	case !its.Enabled:
		return fmt.Sprintf("Enable the mTLS certificate %q for %s: this environment is of that kind.", project.Concealed(name, variables), kind)
	}
	return ""
}

// certificatesOf are the ids of an artifact's certificates.
func certificatesOf(a *project.Artifact) []string {
	var out []string
	for _, c := range a.Certificates {
		out = append(out, c.ID)
	}
	slices.Sort(out)
	return out
}
