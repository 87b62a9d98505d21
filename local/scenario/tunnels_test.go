package scenario_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// tunnels uses the operations on tunnels, for a project of its own that is deleted meanwhile.
func (s *story) tunnels(t *testing.T) {
	t.Helper()
	const tunnels, tunnel = "/v1/accounts/{accountName}/tunnels", "/v1/accounts/{accountName}/tunnels/{tunnelId}"
	const configuration, project = tunnel + "/services-configuration", "/v1/accounts/{accountName}/projects/{projectName}"
	caller := unique(t, "caller")
	own := strings.TrimPrefix(caller, "caller-")
	s.values["projectName"], s.values["tunnel"], s.values["service"] = caller, "office-"+own, "stock-"+own
	s.ask(t, 200, "POST", "/v1/projects", `{"name":"{projectName}"}`)
	made := s.ask(t, 201, "POST", tunnels, `{"name":"{tunnel}"}`, "tunnelId=tunnelId")
	if !has(t, s.ask(t, 200, "GET", tunnels, ""), "id", s.values["tunnelId"]) {
		t.Error("the tunnel is not listed")
	}
	if read := s.ask(t, 200, "GET", tunnel, ""); read.text("token") != made.text("token") {
		t.Error("it is read with another token")
	}
	if rotated := s.ask(t, 200, "POST", tunnel+"/$rotate-token", ""); rotated.text("token") == made.text("token") || rotated.text("token") == "" {
		t.Error("its token is rotated to the same")
	}
	services := func(name, endpoint string) string {
		return `{"version":1,"services":[{"name":"` + name + `","endpoint":"` + endpoint + `","configurations":[{"project":"{projectName}","accessibleBy":["production"]}]}]}`
	}
	for _, endpoint := range []string{"http://localhost:8080", "http://localhost:8081"} {
		s.ask(t, 200, "PUT", configuration, services("{service}", endpoint), "operationId=id")
		s.ended(t, tunnel+"/provisioning-operations/{operationId}")
	}
	if c := s.ask(t, 200, "GET", configuration, ""); !strings.Contains(fmt.Sprint(c), "endpoint:http://localhost:8081") {
		t.Errorf("configured is %v", c)
	}

	s.values["first"] = s.values["tunnelId"]
	s.ask(t, 201, "POST", tunnels, `{"name":"{tunnel}-2"}`, "tunnelId=tunnelId")
	s.ask(t, 409, "PUT", configuration, services("{service}", "http://localhost"))
	s.values["tunnelId"], s.values["second"] = s.values["first"], s.values["tunnelId"]

	s.ask(t, 200, "DELETE", project, "", "operationId=id")
	s.ended(t, project+"/operations/{operationId}")
	if c := s.ask(t, 200, "GET", configuration, ""); !strings.Contains(fmt.Sprint(c), "configurations:[]") {
		t.Errorf("the deleted project may call still: %v", c)
	}
	for _, id := range []string{"first", "second"} {
		s.values["tunnelId"] = s.values[id]
		s.ask(t, 200, "DELETE", tunnel, "", "operationId=id")
		s.ended(t, tunnel+"/teardown-operations/{operationId}")
		s.ask(t, 404, "GET", tunnel, "")
	}
}

// ended waits for an operation, which has to succeed.
func (s *story) ended(t *testing.T, path string) {
	t.Helper()
	for {
		switch o := s.ask(t, 200, "GET", path, ""); o.text("status") {
		case "in-progress":
			time.Sleep(200 * time.Millisecond)
		case "success":
			return
		default:
			t.Fatalf("%s has come to %v", path, o)
		}
	}
}
