package environments

import (
	"context"
	"encoding/base64"
	"encoding/json"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/deployments"
	sharedenvironment "github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/variables"
)

// Bind returns the group's routes.
func Bind(p installation.Parts) []api.Route {
	p = Group.Held(p)
	h := handlers{deployments.Open(p), variables.Open(p)}
	return []api.Route{
		list.To(h.list), create.To(h.create),
		configurations.To(h.configurations), localConfigurations.To(h.localConfigurations), read.To(h.read),
	}
}

type handlers struct {
	service   *deployments.Service
	variables *variables.Service
}

func (h handlers) list(ctx context.Context, in *listIn) (*listOut, error) {
	o, err := owner(ctx, in.AccountName)
	if err != nil {
		return nil, err
	}
	return api.AnswerPart(in.Page, view)(h.service.ListEnvironments(ctx, o, in.ProjectName))
}

func (h handlers) create(ctx context.Context, in *createIn) (*environmentOut, error) {
	o := auth.OwnerFrom(ctx)
	if in.Body.AccountName != o.Account {
		return nil, fault.Missing("account")
	}
	kind := sharedenvironment.Kind(in.Body.EnvironmentType)
	return api.Answer(view)(h.service.CreateEnvironment(ctx, o, in.Body.ProjectName, in.Body.BranchName, kind))
}

func (h handlers) read(ctx context.Context, in *nameIn) (*environmentOut, error) {
	return api.Answer(view)(h.find(ctx, in))
}

func (h handlers) configurations(ctx context.Context, in *nameIn) (*configurationOut, error) {
	return api.Answer(configure)(h.find(ctx, in))
}

// localConfigurations shows no secret, whatever the key may: values that are never
// shown elsewhere would come to lie in a file on each developer's machine. A
// developer sets them there by hand.
func (h handlers) localConfigurations(ctx context.Context, in *nameIn) (*localOut, error) {
	e, err := h.find(ctx, in)
	if err != nil {
		return nil, err
	}
	all, err := h.variables.List(ctx, variables.Branch{Owner: auth.OwnerFrom(ctx), Project: e.Project, Branch: e.Branch})
	if err != nil {
		return nil, err
	}
	c := configure(e)
	// No variable's name is one of these: theirs are in upper case.
	out := map[string]string{
		"accountName": c.AccountName, "projectName": c.ProjectName,
		"environmentType": c.EnvironmentType, "systemConfigurations": c.SystemConfigurations,
	}
	for _, v := range all {
		out[v.Name] = v.Value // "" for a secret
	}
	return &localOut{Body: out}, nil
}

func (h handlers) find(ctx context.Context, in *nameIn) (deployments.Environment, error) {
	o, err := owner(ctx, in.AccountName)
	if err != nil {
		return deployments.Environment{}, err
	}
	return h.service.ReadEnvironment(ctx, deployments.EnvironmentAt{Owner: o, Name: in.EnvironmentName, Project: in.ProjectName})
}

// owner is the caller's account, which is all that a key sees. The query names it
// for clients that have several keys.
func owner(ctx context.Context, account string) (auth.Owner, error) {
	o := auth.OwnerFrom(ctx)
	if account != "" && account != o.Account {
		return auth.Owner{}, fault.Missing("account")
	}
	return o, nil
}

func view(e deployments.Environment) environment {
	return environment{
		Name: e.Name, CreatedOn: api.Timestamp(e.CreatedOn), AccountName: e.Account, ProjectName: e.Project,
		BranchName: e.Branch, EnvironmentType: string(e.Kind),
	}
}

// system is what systemConfigurations holds, as JSON in base64: clients keep it in
// files of variables, where quotes and braces mean something.
type system struct {
	Deployment string `json:"deployment"`
	URL        string `json:"url"`
	KeyBucket  string `json:"keyBucket"`
}

func configure(e deployments.Environment) configuration {
	text, err := json.Marshal(system{Deployment: e.Name, URL: e.URL, KeyBucket: keys.DefaultBucket(e.Project, e.Kind)})
	if err != nil {
		panic(err) // texts can always be encoded
	}
	return configuration{
		AccountName: e.Account, ProjectName: e.Project, EnvironmentType: string(e.Kind),
		SystemConfigurations: base64.StdEncoding.EncodeToString(text),
	}
}
