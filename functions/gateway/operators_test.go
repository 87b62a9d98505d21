package gateway_test

import (
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/project"
)

// TestOperatorsAndEmulatorsOfAProcessAreNoUpstream, at the port that the system has chosen, by any address of this machine
// and by its names. It may call others at the same addresses.
func TestOperatorsAndEmulatorsOfAProcessAreNoUpstream(t *testing.T) {
	s := newSite(t, 10)
	p := s.start()
	_, operators, err := net.SplitHostPort(p.admin)
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
		routes = append(routes, route("/operators/"+host+"/readyz", "http://"+host+":"+operators), route("/emulators/"+host, "http://"+host+":"+emulator.Port()))
	}
	s.deploy("curious-main-0a1b2c3", &project.Artifact{Routes: append(routes, route("/x", "http://127.0.0.1:"+upstream.Port()))})
	for _, r := range routes {
		status, err := p.askOf(http.DefaultClient, "curious-main-0a1b2c3", r.Path)
		if s.must(err); status != http.StatusBadGateway {
			t.Errorf("a project is answered %d by %s", status, r.Path)
		}
	}
	if status, err := p.askOf(http.DefaultClient, "curious-main-0a1b2c3", "/x"); status != http.StatusOK || err != nil {
		t.Errorf("its upstream answers %d, %v", status, err)
	}
	p.stop()
	if refused := strings.Count(p.output.String(), "does not allow the address"); refused != len(routes) {
		t.Errorf("of %d addresses %d are refused when they are dialled:\n%s", len(routes), refused, p.output.String())
	}
}
