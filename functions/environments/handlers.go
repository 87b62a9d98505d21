package environments

import (
	"context"
	"encoding/base64"
	"encoding/json"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	sharedenvironment "github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/deployments"
	"github.com/gatewright/gatewright/shared/resource/keys"
	"github.com/gatewright/gatewright/shared/resource/variables"
)

// Bind returns the group's routes.
func Bind(p installation.Parts) []api.Route {
	p = Group.Restrict(p)
	h := handlers{deployments.Open(p), variables.Open(p)}
	return []api.Route{
		list.HandledBy(h.list), create.HandledBy(h.create),
		configurations.HandledBy(h.configurations), localConfigurations.HandledBy(h.localConfigurations),
		read.HandledBy(h.read),
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
	return api.RespondSlice(in.Page, view)(h.service.ListEnvironments(ctx, o, in.ProjectName))
}

func (h handlers) create(ctx context.Context, in *createIn) (*environmentOut, error) {
	o := auth.OwnerFrom(ctx)
	if in.Body.AccountName != o.Account {
		return nil, fault.Missing("account")
	}
	kind := sharedenvironment.Kind(in.Body.EnvironmentType)
	return api.Respond(view)(h.service.CreateEnvironment(ctx, o, in.Body.ProjectName, in.Body.BranchName, kind))
}

func (h handlers) read(ctx context.Context, in *nameIn) (*environmentOut, error) {
	return api.Respond(view)(h.find(ctx, in))
}

func (h handlers) configurations(ctx context.Context, in *nameIn) (*configurationOut, error) {
	return api.Respond(viewConfiguration)(h.find(ctx, in))
}

// localConfigurations returns the configuration of an environment together with its variables. The value of a secret is
// "", even for a key with full access: no operation shows secrets, and clients store this response in a file on each
// developer's machine. Developers set the secrets in this file by hand.
func (h handlers) localConfigurations(ctx context.Context, in *nameIn) (*localOut, error) {
	e, err := h.find(ctx, in)
	if err != nil {
		return nil, err
	}
	values, err := h.variables.List(ctx, variables.Branch{
		Owner: auth.OwnerFrom(ctx), Project: e.Project,
		Branch: e.Branch,
	})
	if err != nil {
		return nil, err
	}
	c := viewConfiguration(e)
	// No variable can have one of these names, because the names of variables are in upper case.
	out := map[string]string{
		"accountName": c.AccountName, "projectName": c.ProjectName,
		"environmentType": c.EnvironmentType, "systemConfigurations": c.SystemConfigurations,
	}
	for _, v := range values {
		out[v.Name] = v.Value // "" for a secret
	}
	return &localOut{Body: out}, nil
}

func (h handlers) find(ctx context.Context, in *nameIn) (deployments.Environment, error) {
	o, err := owner(ctx, in.AccountName)
	if err != nil {
		return deployments.Environment{}, err
	}
	return h.service.ReadEnvironment(ctx, deployments.EnvironmentLocator{
		Owner: o, Name: in.EnvironmentName,
		Project: in.ProjectName,
	})
}

// owner returns the caller's account. It returns NotFound if account names another account, because a key can only see
// its own account. Clients with several keys send the account in the query, to make sure that they use the right key.
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

// systemConfiguration is the content of systemConfigurations. It is encoded as JSON and then as base64, because clients
// store it in .env files, where the quotes and braces of JSON would have a meaning.
type systemConfiguration struct {
	Deployment string `json:"deployment"`
	URL        string `json:"url"`
	KeyBucket  string `json:"keyBucket"`
}

func viewConfiguration(e deployments.Environment) configuration {
	text, err := json.Marshal(systemConfiguration{
		Deployment: e.Name, URL: e.URL,
		KeyBucket: keys.DefaultBucket(e.Project, e.Kind),
	})
	if err != nil {
		panic(err) // cannot happen: all fields are strings
	}
	return configuration{
		AccountName: e.Account, ProjectName: e.Project, EnvironmentType: string(e.Kind),
		SystemConfigurations: base64.StdEncoding.EncodeToString(text),
	}
}
