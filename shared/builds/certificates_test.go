package builds

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/mtlscertificates"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/store"
)

// safe are a project's certificates: one is enabled for production, closed for nothing.
type safe struct{ opened int }

func (*safe) Usable(_ context.Context, _, _ string, kind environment.Kind) (map[string]mtlscertificates.Usable, error) {
	return map[string]mtlscertificates.Usable{
		"one":    {ID: "cert_1", Name: "one", Enabled: kind == environment.Production},
		"closed": {ID: "cert_2", Name: "closed"},
	}, nil
}

func (s *safe) Unseal(_ context.Context, _, _, id string) (chain, key string, err error) {
	s.opened++
	return "chain of " + id, "key of " + id, nil
}

func (*safe) Serving(context.Context, string, string, environment.Kind, []string) ([]store.Write, bool, error) {
	return nil, true, nil
}

func TestBuildsFindCertificates(t *testing.T) {
	showing := func(path, name string) project.Route {
		options, _ := json.Marshal(map[string]string{"baseUrl": "https://up.test", "mtlsCertificate": name})
		return project.Route{
			Source:  project.Source{File: "config/routes.oas.json", Pointer: "/paths/" + path},
			Handler: project.Component{Export: "urlForwardHandler", Options: options},
		}
	}
	for _, tt := range []struct {
		name string
		kind environment.Kind
		want string
	}{
		{"one", environment.Production, ""},
		{"one", environment.Preview, `Enable the mTLS certificate "one" for preview`},
		{"closed", environment.Production, `Enable the mTLS certificate "closed" for production`},
		{"other", environment.Production, `there is no "other". There are closed, one.`},
		{"s3cret", environment.Production, `there is no "$env(NAME)"`},
	} {
		its := &safe{}
		b := New(Options{Certificates: its})
		a := &project.Artifact{Routes: []project.Route{showing("~1a", tt.name), showing("~1b", tt.name), {}}}
		problems, err := b.bindCertificates(t.Context(), deployments.BuildInput{Kind: tt.kind}, a, map[string]string{"NAME": "s3cret"})
		if err != nil {
			t.Fatal(err)
		}
		if tt.want == "" {
			if len(problems) > 0 || its.opened != 1 || a.Certificates["one"].Key != "key of cert_1" || len(certificatesOf(a)) != 1 {
				t.Errorf("%v, %+v", problems, a.Certificates)
			}
			continue
		}
		if len(problems) != 2 || !strings.Contains(problems[0].Message, tt.want) || len(a.Certificates) > 0 ||
			problems[1].Path != "/paths/~1b/x-gateway-route/handler/options/mtlsCertificate" {
			t.Errorf("%s for %s: %+v", tt.name, tt.kind, problems)
		}
	}
}
