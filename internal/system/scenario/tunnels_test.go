package scenario_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// tunnels uses the operations on tunnels, with a project of its own, which is deleted in between.
func (w *walkthrough) tunnels(t *testing.T) {
	t.Helper()
	const tunnels, tunnel = "/v1/accounts/{accountName}/tunnels", "/v1/accounts/{accountName}/tunnels/{tunnelId}"
	const configuration, project = tunnel + "/services-configuration", "/v1/accounts/{accountName}/projects/{projectName}"
	caller := unique(t, "caller")
	suffix := strings.TrimPrefix(caller, "caller-")
	w.values["projectName"], w.values["tunnel"], w.values["service"] = caller, "office-"+suffix, "stock-"+suffix
	w.ask(t, 200, "POST", "/v1/projects", `{"name":"{projectName}"}`)
	created := w.ask(t, 201, "POST", tunnels, `{"name":"{tunnel}"}`, "tunnelId=tunnelId")
	if !hasItem(t, w.ask(t, 200, "GET", tunnels, ""), "id", w.values["tunnelId"]) {
		t.Error("GET …/tunnels lacks the new tunnel, want it in the list")
	}
	if read := w.ask(t, 200, "GET", tunnel, ""); read.text("token") != created.text("token") {
		t.Error("GET of the tunnel returns another token than POST, want the same")
	}
	if rotated := w.ask(t, 200, "POST", tunnel+"/$rotate-token", ""); rotated.text("token") == created.text("token") ||
		rotated.text("token") == "" {
		t.Error("$rotate-token returns no token or the same one, want another")
	}
	services := func(name, endpoint string) string {
		return `{"version":1,"services":[{"name":"` +
			name + `","endpoint":"` + endpoint +
			`","configurations":[{"project":"{projectName}","accessibleBy":["production"]}]}]}`
	}
	for _, endpoint := range []string{"http://localhost:8080", "http://localhost:8081"} {
		w.ask(t, 200, "PUT", configuration, services("{service}", endpoint), "operationId=id")
		w.awaitOperation(t, tunnel+"/provisioning-operations/{operationId}")
	}
	if c := w.ask(t, 200, "GET", configuration, ""); !strings.Contains(fmt.Sprint(c), "endpoint:http://localhost:8081") {
		t.Errorf("GET …/services-configuration = %v, want the endpoint http://localhost:8081", c)
	}

	w.values["first"] = w.values["tunnelId"]
	w.ask(t, 201, "POST", tunnels, `{"name":"{tunnel}-2"}`, "tunnelId=tunnelId")
	w.ask(t, 409, "PUT", configuration, services("{service}", "http://localhost"))
	w.values["tunnelId"], w.values["second"] = w.values["first"], w.values["tunnelId"]

	w.ask(t, 200, "DELETE", project, "", "operationId=id")
	w.awaitOperation(t, project+"/operations/{operationId}")
	if c := w.ask(t, 200, "GET", configuration, ""); !strings.Contains(fmt.Sprint(c), "configurations:[]") {
		t.Errorf("GET …/services-configuration after the project was deleted = %v, want no configurations", c)
	}
	for _, id := range []string{"first", "second"} {
		w.values["tunnelId"] = w.values[id]
		w.ask(t, 200, "DELETE", tunnel, "", "operationId=id")
		w.awaitOperation(t, tunnel+"/teardown-operations/{operationId}")
		w.ask(t, 404, "GET", tunnel, "")
	}
}

// awaitOperation waits for an operation, and requires that it succeeds.
func (w *walkthrough) awaitOperation(t *testing.T, path string) {
	t.Helper()
	for {
		switch o := w.ask(t, 200, "GET", path, ""); o.text("status") {
		case "in-progress":
			time.Sleep(200 * time.Millisecond)
		case "success":
			return
		default:
			t.Fatalf("the operation %s has ended with %v, want success", path, o)
		}
	}
}
