package customdomains

import (
	"context"
	"slices"

	"github.com/gatewright/gatewright/shared/core/store"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/resource/deployments"
)

// Mapping is a deployment of a custom domain.
type Mapping struct {
	store.UnknownAttributes

	Deployment string           `dynamodbav:"deployment"`
	Project    string           `dynamodbav:"project"`
	Branch     string           `dynamodbav:"branch"`
	Kind       environment.Kind `dynamodbav:"kind"`
}

var (
	errNotMapped = fault.New(fault.NotFound,
		"The custom domain does not lead to this deployment. Read the custom domain to see where it leads.")
	errDefault = fault.New(fault.Conflict,
		"The deployment is the one that is served at the hostname. Make another one the default instead.")
	errTooManyDeployments = fault.New(fault.Conflict, "The custom domain leads to %d deployments, which is the most it "+
		"can. Remove one by its deploymentName.", MaxDeployments)
	errDevelopment = fault.InvalidField("deploymentName",
		"is of a working copy, which has no custom domains: name a deployment of a preview or of production")
)

// mapping returns the Mapping of a deployment that a custom domain will have.
func (s *Service) mapping(ctx context.Context, owner auth.Owner, name string) (Mapping, error) {
	r, err := deployments.ReadForDomain(ctx, s.parts.Table, owner, name)
	switch {
	case err != nil:
		return Mapping{}, err
	case r.Kind == environment.Development:
		return Mapping{}, errDevelopment
	}
	return Mapping{Deployment: r.Name, Project: r.Project, Branch: r.Branch, Kind: r.Kind}, nil
}

// servedDeployment returns the deployment that is served at the hostname, "" for none.
func (r record) servedDeployment() string {
	if len(r.Mappings) == 0 || r.Stage != API {
		return ""
	}
	return r.Mappings[0].Deployment
}

func (r record) indexOf(deployment string) int {
	return slices.IndexFunc(r.Mappings, func(m Mapping) bool { return m.Deployment == deployment })
}

func (r record) hasDeployment(deployment string) bool { return r.indexOf(deployment) >= 0 }

// withMapping returns the record with one more deployment. The new deployment becomes the served one if served is true,
// or if it is the only one.
func (r record) withMapping(m Mapping, served bool) (record, error) {
	if len(r.Mappings) >= MaxDeployments {
		return record{}, errTooManyDeployments
	}
	i := len(r.Mappings)
	if served {
		i = 0
	}
	r.Mappings = slices.Insert(slices.Clone(r.Mappings), i, m)
	return r, nil
}

// withServed returns the record with another deployment in place of the served one.
func (r record) withServed(m Mapping) record {
	others := r.Mappings[min(1, len(r.Mappings)):]
	r.Mappings = append([]Mapping{m}, others...)
	return r
}

// withDefault returns the record with one of its deployments as the served one. If notDefault is true, it returns the
// record unchanged, or errDefault if the deployment is the served one of several.
func (r record) withDefault(deployment string, notDefault bool) (record, error) {
	i := r.indexOf(deployment)
	switch {
	case notDefault && i == 0 && len(r.Mappings) > 1:
		return record{}, errDefault
	case notDefault:
		return r, nil
	}
	m := r.Mappings[i]
	r.Mappings = slices.Insert(slices.Delete(slices.Clone(r.Mappings), i, i+1), 0, m)
	return r, nil
}

// withoutMapping returns the record without a deployment.
func (r record) withoutMapping(deployment string) record {
	i := r.indexOf(deployment)
	r.Mappings = slices.Delete(slices.Clone(r.Mappings), i, i+1)
	return r
}

func (r record) attachments() []deployments.Attachment {
	out := make([]deployments.Attachment, len(r.Mappings))
	for i, m := range r.Mappings {
		out[i] = deployments.Attachment{Project: m.Project, Deployment: m.Deployment}
	}
	return out
}
