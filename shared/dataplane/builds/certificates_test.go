package builds

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/resource/deployments"
	"github.com/gatewright/gatewright/shared/resource/upstreamcerts"
)

// certificateStore has two certificates of a project: "one" is enabled for production, and "closed" is not enabled.
type certificateStore struct {
	opened int // number of calls of Unseal
}

func (*certificateStore) Usable(
	_ context.Context, _, _ string, kind environment.Kind,
) (map[string]upstreamcerts.Usable, error) {
	return map[string]upstreamcerts.Usable{
		"one":    {ID: "cert_1", Name: "one", Enabled: kind == environment.Production},
		"closed": {ID: "cert_2", Name: "closed"},
	}, nil
}

func (s *certificateStore) Unseal(_ context.Context, _, _, id string) (chain, key string, err error) {
	s.opened++
	return "chain of " + id, "key of " + id, nil
}

func (*certificateStore) ServingWrites(
	context.Context, string, string, environment.Kind, []string,
) ([]store.Write, bool, error) {
	return nil, true, nil
}

// TestBuildsFindCertificates checks that a build opens a certificate of two routes only once. The build reports each
// route whose certificate it cannot use, and does not show the value of a variable.
func TestBuildsFindCertificates(t *testing.T) {
	proxyRoute := func(path, name string) project.Route {
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
		fake := &certificateStore{}
		b := New(Options{Certificates: fake})
		a := &project.Artifact{Routes: []project.Route{proxyRoute("~1a", tt.name), proxyRoute("~1b", tt.name), {}}}
		problems, err := b.bindCertificates(t.Context(), deployments.BuildInput{Kind: tt.kind}, a,
			map[string]string{"NAME": "s3cret"})
		if err != nil {
			t.Fatal(err)
		}
		if tt.want == "" {
			if len(problems) > 0 || fake.opened != 1 || a.Certificates["one"].Key != "key of cert_1" ||
				len(certificateIDs(a)) != 1 {
				t.Errorf("bindCertificates(%s, %s): problems = %v, opened %d, certificates = %+v, IDs = %v, want no problem, 1, "+
					"the key of cert_1 and one ID",
					tt.name, tt.kind, problems, fake.opened, a.Certificates, certificateIDs(a))
			}
			continue
		}
		if len(problems) != 2 || !strings.Contains(problems[0].Message, tt.want) || len(a.Certificates) > 0 ||
			problems[1].Path != "/paths/~1b/x-gateway-route/handler/options/mtlsCertificate" {
			t.Errorf("bindCertificates(%s, %s): problems = %+v, certificates = %v, want 2 problems, the first with %q and the "+
				"second at the mtlsCertificate of /b, and no certificates",
				tt.name, tt.kind, problems, a.Certificates, tt.want)
		}
		for _, p := range problems {
			if strings.Contains(p.Message, "s3cret") {
				t.Errorf("bindCertificates(%s, %s): problem = %q, want it without the variable's value",
					tt.name, tt.kind, p.Message)
			}
		}
	}
}
