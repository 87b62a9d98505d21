package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/infra/removals"
	"github.com/gatewright/gatewright/shared/config"
)

// TestRolesOfTasksAreTakenByECSAlone: those of tasks by tasks of this account, and the one that leads connections by ECS itself.
func TestRolesOfTasksAreTakenByECSAlone(t *testing.T) {
	for _, s := range declaredServices(settingsFor(t, serving(nil))) {
		roles := synthesise(t, serving(nil)).of(t, s).all("AWS::IAM::Role")
		if want := map[string]int{"relay": 2, gateway: 3}[s.Name]; len(roles) != want {
			t.Errorf("%s has %d roles, want %d", s.Name, len(roles), want)
		}
		for id, role := range roles {
			trust := get(role.Properties, "AssumeRolePolicyDocument", "Statement", 0)
			by, of := get(trust, "Principal", "Service"), render(get(trust, "Condition", "StringEquals", "aws:SourceAccount"))
			want := []any{"ecs-tasks.amazonaws.com", "${AWS::AccountId}"}
			if strings.HasPrefix(id, "Shift") {
				want = []any{"ecs.amazonaws.com", "null"}
			}
			if got := []any{by, of}; !slices.Equal(got, want) {
				t.Errorf("%s of %s is taken by %v, want %v", id, s.Name, got, want)
			}
		}
	}
}

// TestWhatTasksReadIsAskedFor before a deployment: the certificate of each service, by the name that its tasks read.
func TestWhatTasksReadIsAskedFor(t *testing.T) {
	a := synthesise(t, serving(nil))
	var stack removals.Stack
	stack.Templates = map[string]removals.Template{}
	for file, raw := range a.raw {
		var one removals.Template
		if err := json.Unmarshal(raw, &one); err != nil {
			t.Fatal(err)
		}
		stack.Templates[file] = one
	}
	if got, want := stack.Parameters(), []string{"/gatewright/dev/gateway-certificate", "/gatewright/dev/relay-certificate"}; !slices.Equal(got, want) {
		t.Errorf("%v are asked for, want %v", got, want)
	}
}

// TestTasksBeginWhenTheyCan: a service is made after what its first tasks need, or they fail and with them the whole installation: what starts them
// may pull and read, they may use the table, and there is a way out, and a listener before which no group takes targets.
func TestTasksBeginWhenTheyCan(t *testing.T) {
	for _, s := range declaredServices(settingsFor(t, serving(nil))) {
		a := synthesise(t, serving(nil)).of(t, s)
		runs := a.only(t, "AWS::ECS::Service")
		want := map[string][]string{"relay": {"Listener", "RouteToInternet", "StartPolicy", "TaskPolicy"}, gateway: {"RouteToInternet", "ShiftPolicy", "StartPolicy", "TaskPolicy"}}[s.Name]
		if after := slices.Sorted(slices.Values(runs.DependsOn)); !slices.Equal(after, want) {
			t.Errorf("%s is made after %v, want %v", s.Name, after, want)
		}
		for id, of := range map[string]string{"RouteToInternet": "InternetAttachment", "Balancer": "RouteToInternet"} {
			if !slices.Contains(a.find(id).DependsOn, of) {
				t.Errorf("%s of %s is made before %s", id, s.Name, of)
			}
		}
		// A task that has started is asked for its health at once, and one that opens the table first is not killed for that.
		if grace, _ := runs.Properties["HealthCheckGracePeriodSeconds"].(float64); grace < healthEvery*unhealthyAfter {
			t.Errorf("%s is told unhealthy after %v s", s.Name, grace)
		}
		if runs.Properties["EnableExecuteCommand"] != false {
			t.Errorf("somebody may run commands in the tasks of %s", s.Name)
		}
		if mode := get(a.container(t), "LogConfiguration", "Options", "mode"); mode != "non-blocking" {
			t.Errorf("%s waits for its log: %v", s.Name, mode)
		}
	}
}

// TestTheLoadBalancerPassesConnectionsAsTheyAre, and tells a task that left in less time than the task waits for it.
func TestTheLoadBalancerPassesConnectionsAsTheyAre(t *testing.T) {
	for _, s := range declaredServices(settingsFor(t, serving(nil))) {
		a := synthesise(t, serving(nil)).of(t, s)
		attribute := func(of any, name string) any {
			list, _ := of.([]any)
			for _, one := range list {
				if get(one, "Key") == name {
					return get(one, "Value")
				}
			}
			return nil
		}
		at := a.only(t, "AWS::ElasticLoadBalancingV2::LoadBalancer").Properties
		if attribute(at["LoadBalancerAttributes"], "load_balancing.cross_zone.enabled") != "true" || at["Scheme"] != "internet-facing" {
			t.Errorf("the load balancer of %s is %v", s.Name, at)
		}
		// Longer than a minute, below which NLB goes no further, and which many clients keep a connection for.
		if idle := attribute(a.only(t, "AWS::ElasticLoadBalancingV2::Listener").Properties["ListenerAttributes"], "tcp.idle_timeout.seconds"); idle != "360" {
			t.Errorf("idle connections of %s end after %v s", s.Name, idle)
		}
		for id, group := range a.all("AWS::ElasticLoadBalancingV2::TargetGroup") {
			p := group.Properties
			for name, want := range map[string]string{
				"proxy_protocol_v2.enabled":                               "false", // which no process reads
				"target_health_state.unhealthy.draining_interval_seconds": "0", "deregistration_delay.timeout_seconds": "60",
			} {
				if got := attribute(p["TargetGroupAttributes"], name); got != want {
					t.Errorf("%s of %s has %s %v, want %s", id, s.Name, name, got, want)
				}
			}
			every, _ := p["HealthCheckIntervalSeconds"].(float64)
			timeout, _ := p["HealthCheckTimeoutSeconds"].(float64)
			healthy, _ := p["HealthyThresholdCount"].(float64)
			unhealthy, _ := p["UnhealthyThresholdCount"].(float64)
			if every < 5 || timeout < 2 || timeout >= every || every*healthy > 30 || every*unhealthy > 60 || get(p, "Matcher", "HttpCode") != "200" {
				t.Errorf("%s of %s is asked each %v s, for %v s, and believed after %v and %v, or %v", id, s.Name, every, timeout, healthy, unhealthy, p["Matcher"])
			}
			// A process that announces its end answers 503, and is led nobody to before it stops to take them.
			if s.Announce > 0 && config.DefaultAnnounce.Seconds() < every {
				t.Errorf("%s announces its end for %s, and is asked each %v s", s.Name, config.DefaultAnnounce, every)
			}
		}
	}
}
