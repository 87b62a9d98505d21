package customdomains

import (
	"context"
	"slices"

	"github.com/gatewright/gatewright/shared/store"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
)

// Mapping is a deployment that a custom domain leads to.
type Mapping struct {
	store.Rest

	Deployment string           `dynamodbav:"deployment"`
	Project    string           `dynamodbav:"project"`
	Branch     string           `dynamodbav:"branch"`
	Kind       environment.Kind `dynamodbav:"kind"`
}

var (
	errNotMapped = fault.New(fault.NotFound, "The custom domain does not lead to this deployment. Read the custom domain to see where it leads.")
	errDefault   = fault.New(fault.Conflict, "The deployment is the one that is served at the hostname. Make another one the default instead.")
	errTooWide   = fault.New(fault.Conflict, "The custom domain leads to %d deployments, which is the most it can. Remove one by its deploymentName.", MaxDeployments)
	errNoDevelop = fault.InvalidField("deploymentName", "is of a working copy, which has no custom domains: name a deployment of a preview or of production")
)

// mapping reads the deployment that a custom domain shall lead to.
func (s *Service) mapping(ctx context.Context, owner auth.Owner, name string) (Mapping, error) {
	r, err := deployments.ForDomains(ctx, s.parts.Table, owner, name)
	switch {
	case err != nil:
		return Mapping{}, err
	case r.Kind == environment.Development:
		return Mapping{}, errNoDevelop
	}
	return Mapping{Deployment: r.Name, Project: r.Project, Branch: r.Branch, Kind: r.Kind}, nil
}

// served is the deployment that is served at the hostname, "" for none.
func (r record) served() string {
	if len(r.Mappings) == 0 || r.Stage != API {
		return ""
	}
	return r.Mappings[0].Deployment
}

func (r record) at(deployment string) int {
	return slices.IndexFunc(r.Mappings, func(m Mapping) bool { return m.Deployment == deployment })
}

func (r record) leadsTo(deployment string) bool { return r.at(deployment) >= 0 }

// with has it lead to a further deployment. The first one is the served one in any case.
func (r record) with(m Mapping, served bool) (record, error) {
	if len(r.Mappings) >= MaxDeployments {
		return record{}, errTooWide
	}
	at := len(r.Mappings)
	if served {
		at = 0
	}
	r.Mappings = slices.Insert(slices.Clone(r.Mappings), at, m)
	return r, nil
}

// reassigned has another deployment take the place of the served one.
func (r record) reassigned(m Mapping) record {
	rest := r.Mappings[min(1, len(r.Mappings)):]
	r.Mappings = append([]Mapping{m}, rest...)
	return r
}

// preferring has a deployment that it leads to be the served one, or checks that it is not.
func (r record) preferring(deployment string, not bool) (record, error) {
	at := r.at(deployment)
	switch {
	case not && at == 0 && len(r.Mappings) > 1:
		return record{}, errDefault
	case not:
		return r, nil
	}
	m := r.Mappings[at]
	r.Mappings = slices.Insert(slices.Delete(slices.Clone(r.Mappings), at, at+1), 0, m)
	return r, nil
}

// without has it lead to a deployment no more.
func (r record) without(deployment string) record {
	at := r.at(deployment)
	r.Mappings = slices.Delete(slices.Clone(r.Mappings), at, at+1)
	return r
}

func (r record) attachments() []deployments.Attachment {
	out := make([]deployments.Attachment, len(r.Mappings))
	for i, m := range r.Mappings {
		out[i] = deployments.Attachment{Project: m.Project, Deployment: m.Deployment}
	}
	return out
}
