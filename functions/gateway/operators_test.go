package gateway_test

import (
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
)

// TestAdminAndEmulatorAddressesAreRefused checks that a route cannot reach the ports of the admin listener and of
// emulators, by any address or name of this machine. It must be able to reach other ports at the same addresses.
func TestAdminAndEmulatorAddressesAreRefused(t *testing.T) {
	s := newProcessFixture(t, 10)
	p := s.start()
	_, adminPort, err := net.SplitHostPort(p.admin)
	s.must(err)
	emulator, err := url.Parse(s.endpoint)
	s.must(err)
	hosts := []string{"127.0.0.1", "127.0.0.2", "[::1]", "localhost"}
	if name, err := os.Hostname(); err == nil {
		if _, err := net.DefaultResolver.LookupHost(t.Context(), name); err == nil {
			hosts = append(hosts, name)
		}
	}
	upstream, err := url.Parse(s.upstream)
	s.must(err)
	var routes []project.Route
	for _, host := range hosts {
		routes = append(routes, route("/operators/"+host+"/readyz", "http://"+host+":"+adminPort),
			route("/emulators/"+host, "http://"+host+":"+emulator.Port()))
	}
	s.deploy("curious-main-0a1b2c3",
		&project.Artifact{Routes: append(routes, route("/x", "http://127.0.0.1:"+upstream.Port()))})
	for _, r := range routes {
		status, err := p.requestDeployment(http.DefaultClient, "curious-main-0a1b2c3", r.Path)
		if s.must(err); status != http.StatusBadGateway {
			t.Errorf("GET %s of a project = %d, want 502", r.Path, status)
		}
	}
	if status, err := p.requestDeployment(http.DefaultClient, "curious-main-0a1b2c3", "/x"); status != http.StatusOK ||
		err != nil {
		t.Errorf("GET /x of a project = %d, %v, want 200", status, err)
	}
	p.stop()
	if refused := strings.Count(p.output.String(), "does not allow the address"); refused != len(routes) {
		t.Errorf("refused addresses = %d, want %d:\n%s", refused, len(routes), p.output.String())
	}
}
