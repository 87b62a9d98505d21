package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/infra/removals"
	"github.com/gatewright/gatewright/shared/core/config"
)

// TestTaskRolesAreAssumedOnlyByECS checks that only tasks of this account can assume the roles of tasks, and that only
// ECS can assume the role that moves connections.
func TestTaskRolesAreAssumedOnlyByECS(t *testing.T) {
	for _, s := range serviceSpecs(settingsFor(t, servicesContext(nil))) {
		roles := synthesize(t, servicesContext(nil)).serviceStack(t, s).all("AWS::IAM::Role")
		if want := map[string]int{"relay": 2, gateway: 3}[s.Name]; len(roles) != want {
			t.Errorf("%s has %d roles, want %d", s.Name, len(roles), want)
		}
		for id, role := range roles {
			trust := get(role.Properties, "AssumeRolePolicyDocument", "Statement", 0)
			service, account := get(trust, "Principal", "Service"),
				render(get(trust, "Condition", "StringEquals", "aws:SourceAccount"))
			want := []any{"ecs-tasks.amazonaws.com", "${AWS::AccountId}"}
			if strings.HasPrefix(id, "Shift") {
				want = []any{"ecs.amazonaws.com", "null"}
			}
			if got := []any{service, account}; !slices.Equal(got, want) {
				t.Errorf("principal and account of the role %s of %s = %v, want %v", id, s.Name, got, want)
			}
		}
	}
}

// TestDeploymentVerifiesTaskParameters checks that removals.Stack.Parameters, whose parameters a deployment verifies,
// returns the parameter with the certificate of each service.
func TestDeploymentVerifiesTaskParameters(t *testing.T) {
	a := synthesize(t, servicesContext(nil))
	var stack removals.Stack
	stack.Templates = map[string]removals.Template{}
	for file, raw := range a.raw {
		var tmpl removals.Template
		if err := json.Unmarshal(raw, &tmpl); err != nil {
			t.Fatal(err)
		}
		stack.Templates[file] = tmpl
	}
	got := stack.SecretParameters()
	want := []string{"/gatewright/dev/gateway-certificate", "/gatewright/dev/relay-certificate"}
	if !slices.Equal(got, want) {
		t.Errorf("SecretParameters() = %v, want %v", got, want)
	}
}

// TestTasksStartAfterTheirDependencies checks that a service is created after everything that its first tasks need:
// otherwise the tasks fail, and with them the creation of the whole installation. ECS needs permissions to pull the
// image and read the certificate. The tasks need access to the table and a route to the internet. The relay's target
// group has no targets before the listener exists. The test also checks the grace period, remote commands, and the mode
// of the log.
func TestTasksStartAfterTheirDependencies(t *testing.T) {
	for _, s := range serviceSpecs(settingsFor(t, servicesContext(nil))) {
		a := synthesize(t, servicesContext(nil)).serviceStack(t, s)
		service := a.only(t, "AWS::ECS::Service")
		want := map[string][]string{
			"relay": {"Listener", "RouteToInternet", "StartPolicy", "TaskPolicy"},
			gateway: {"RouteToInternet", "ShiftPolicy", "StartPolicy", "TaskPolicy"},
		}[s.Name]
		if after := slices.Sorted(slices.Values(service.DependsOn)); !slices.Equal(after, want) {
			t.Errorf("dependencies of the service %s = %v, want %v", s.Name, after, want)
		}
		for id, dependency := range map[string]string{
			"RouteToInternet": "InternetAttachment",
			"Balancer":        "RouteToInternet",
		} {
			if !slices.Contains(a.find(id).DependsOn, dependency) {
				t.Errorf("dependencies of %s of %s = %v, want %s in them", id, s.Name, a.find(id).DependsOn, dependency)
			}
		}
		// The load balancer checks a task immediately after its start. The grace period keeps ECS from stopping a task
		// that still opens the table.
		if grace, _ := service.Properties["HealthCheckGracePeriodSeconds"].(float64); grace < healthCheckInterval*unhealthyThreshold {
			t.Errorf("HealthCheckGracePeriodSeconds of %s = %v, want at least %v", s.Name, grace,
				healthCheckInterval*unhealthyThreshold)
		}
		if service.Properties["EnableExecuteCommand"] != false {
			t.Errorf("EnableExecuteCommand of %s = %v, want false", s.Name, service.Properties["EnableExecuteCommand"])
		}
		if mode := get(a.containerDefinition(t), "LogConfiguration", "Options", "mode"); mode != "non-blocking" {
			t.Errorf("log mode of %s = %v, want non-blocking", s.Name, mode)
		}
	}
}

// TestLoadBalancerPassesConnectionsUnchanged checks the load balancer, its idle timeout, and its health checks. Tasks
// receive connections without a PROXY header. A task that shuts down reports itself as unhealthy for at least one
// health check interval.
func TestLoadBalancerPassesConnectionsUnchanged(t *testing.T) {
	for _, s := range serviceSpecs(settingsFor(t, servicesContext(nil))) {
		a := synthesize(t, servicesContext(nil)).serviceStack(t, s)
		attribute := func(attributes any, name string) any {
			list, _ := attributes.([]any)
			for _, item := range list {
				if get(item, "Key") == name {
					return get(item, "Value")
				}
			}
			return nil
		}
		properties := a.only(t, "AWS::ElasticLoadBalancingV2::LoadBalancer").Properties
		if attribute(properties["LoadBalancerAttributes"], "load_balancing.cross_zone.enabled") != "true" ||
			properties["Scheme"] != "internet-facing" {
			t.Errorf("load balancer of %s = %v, want internet-facing with cross-zone balancing", s.Name, properties)
		}
		// Many clients keep an idle connection for a minute, which is also the minimum of the load balancer. The
		// timeout is longer.
		idle := attribute(a.only(t, "AWS::ElasticLoadBalancingV2::Listener").Properties["ListenerAttributes"],
			"tcp.idle_timeout.seconds")
		if idle != "360" {
			t.Errorf("idle timeout of %s = %v s, want 360", s.Name, idle)
		}
		for id, group := range a.all("AWS::ElasticLoadBalancingV2::TargetGroup") {
			p := group.Properties
			for name, want := range map[string]string{
				"proxy_protocol_v2.enabled":                               "false", // the tasks do not parse the PROXY protocol
				"target_health_state.unhealthy.draining_interval_seconds": "0", "deregistration_delay.timeout_seconds": "60",
			} {
				if got := attribute(p["TargetGroupAttributes"], name); got != want {
					t.Errorf("%s of %s has %s %v, want %s", id, s.Name, name, got, want)
				}
			}
			interval, _ := p["HealthCheckIntervalSeconds"].(float64)
			timeout, _ := p["HealthCheckTimeoutSeconds"].(float64)
			healthy, _ := p["HealthyThresholdCount"].(float64)
			unhealthy, _ := p["UnhealthyThresholdCount"].(float64)
			if interval < 5 || timeout < 2 || timeout >= interval {
				t.Errorf("%s of %s: interval = %v s, timeout = %v s, want at least 5 and 2, and the timeout less", id, s.Name,
					interval, timeout)
			}
			if interval*healthy > 30 || interval*unhealthy > 60 {
				t.Errorf("%s of %s: interval = %v s for %v and %v checks, want at most 30 s and 60 s", id, s.Name, interval,
					healthy, unhealthy)
			}
			if get(p, "Matcher", "HttpCode") != "200" {
				t.Errorf("%s of %s: Matcher = %v, want 200", id, s.Name, p["Matcher"])
			}
			// A process that announces its end responds to health checks with 503 before it stops accepting
			// connections. The load balancer must notice that in time.
			if s.Announce > 0 && config.DefaultAnnounce.Seconds() < interval {
				t.Errorf("health check interval of %s = %v s, want at most %s, the time that it announces its end", s.Name,
					interval, config.DefaultAnnounce)
			}
		}
	}
}
