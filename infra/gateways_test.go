package main

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// servingResources has the numbers of resources that serve deployments in an installation.
type servingResources struct {
	apis, functions, services, domains int
}

// servingResources counts the resources that serve deployments.
func (a assembly) servingResources() (out servingResources) {
	for _, r := range a.all("AWS::ApiGateway::RestApi") {
		if r.Properties["Name"] == "gatewright-dev-"+gateway {
			out.apis++
		}
	}
	for _, r := range a.all("AWS::Lambda::Function") {
		if r.Properties["FunctionName"] == "gatewright-dev-"+gateway {
			out.functions++
		}
	}
	for _, r := range a.all("AWS::ECS::Service") {
		if r.Properties["ServiceName"] == gateway {
			out.services++
		}
	}
	for _, r := range a.all("AWS::ApiGateway::DomainName") {
		if r.Properties["DomainName"] == "*.apis.example.com" {
			out.domains++
		}
	}
	return out
}

// TestGatewaySettingSelectsWhatServes checks that an installation has only the resources that the setting gateway
// selects. The other alternative must not cost money or have permissions. Only an installation with the function has
// the alarm ConcurrencyNearlyUsed.
func TestGatewaySettingSelectsWhatServes(t *testing.T) {
	for mode, want := range map[string]servingResources{
		"": {1, 1, 0, 1}, "lambda": {1, 1, 0, 1}, "both": {1, 1, 1, 1}, "container": {0, 0, 1, 0},
	} {
		context := map[string]string{}
		if mode != "" {
			context["gateway"] = mode
		}
		a := synthesizeFew(t, minimalContext(context))
		if got := a.servingResources(); got != want {
			t.Errorf("gateway=%s: servingResources() = %+v, want %+v", mode, got, want)
		}
		root := a.stacks["gatewright-dev.template.json"]
		if got := root.Outputs["GatewayAddress"].Value; got != "https://*.apis.example.com" {
			t.Errorf("gateway=%s: output GatewayAddress = %v, want https://*.apis.example.com", mode, got)
		}
		if _, ok := root.Resources["ConcurrencyNearlyUsed"]; ok {
			t.Errorf("gateway=%s: the root stack has the alarm ConcurrencyNearlyUsed, want it in another stack", mode)
		}
		if hasAlarm := a.find("ConcurrencyNearlyUsed").Type != ""; hasAlarm != (want.functions > 0) {
			t.Errorf("gateway=%s: the alarm ConcurrencyNearlyUsed exists: %v, want %v", mode, hasAlarm, !hasAlarm)
		}
	}
}

// TestContainerGatewayHasNoFunctionResources checks that no role, alarm, route or release of the gateway's function
// exists with gateway=container. Only the log of the function and the log of its API remain.
func TestContainerGatewayHasNoFunctionResources(t *testing.T) {
	a := synthesize(t, minimalContext(map[string]string{"gateway": "container"}))
	for file, stack := range a.stacks {
		if strings.Contains(file, "GatewayProcess") {
			continue
		}
		for id, r := range stack.Resources {
			suffix := strings.TrimPrefix(id, "Gateway")
			if suffix == id || strings.HasPrefix(suffix, "Process") || strings.HasPrefix(suffix, "Faults") || suffix == "Logs" ||
				strings.HasPrefix(suffix, "AccessLogs") {
				continue // processes report faults too, and the logs of the function and its API remain
			}
			t.Errorf("%s has %s, a %s of the gateway's function, want none", file, id, r.Type)
		}
		logs := strings.NewReplacer(`"/aws/lambda/gatewright-dev-gateway"`, "", `"/aws/apigateway/gatewright-dev-gateway"`,
			"")
		if strings.Contains(logs.Replace(string(a.raw[file])), `gatewright-dev-gateway"`) {
			t.Errorf("%s names gatewright-dev-gateway, want no reference to the function or its API", file)
		}
	}
}

// TestGatewayTaskSettingsAreApplied checks that the settings apply to the number of tasks and to their size.
func TestGatewayTaskSettingsAreApplied(t *testing.T) {
	for _, tt := range []struct {
		context map[string]string
		want    []any
	}{
		{map[string]string{"gateway": "both"}, []any{nil, 2.0, 10.0, "512", "1024"}},
		{
			map[string]string{"gateway": "container", "gatewayTasks": "4", "gatewayTasksMost": "4", "gatewayTaskMemory": "2048"},
			[]any{nil, 4.0, 4.0, "1024", "2048"},
		},
	} {
		a := synthesizeFew(t, minimalContext(tt.context))
		task, target := a.only(t, "AWS::ECS::TaskDefinition").Properties,
			a.only(t, "AWS::ApplicationAutoScaling::ScalableTarget").Properties
		if got := []any{
			a.only(t, "AWS::ECS::Service").Properties["DesiredCount"], target["MinCapacity"],
			target["MaxCapacity"], task["Cpu"], task["Memory"],
		}; !slices.Equal(got, tt.want) {
			t.Errorf("%v: DesiredCount, MinCapacity, MaxCapacity, Cpu, Memory = %v, want %v", tt.context, got, tt.want)
		}
	}
}

// TestGatewaysScaleWithCPU checks that gateways scale and the relay does not. The scale-in cooldown is longer than a
// task needs to drain, so that the previous task has drained before another one is removed.
func TestGatewaysScaleWithCPU(t *testing.T) {
	a := synthesize(t, servicesContext(nil))
	target := a.only(t, "AWS::ApplicationAutoScaling::ScalableTarget").Properties
	if target["ServiceNamespace"] != "ecs" || target["ScalableDimension"] != "ecs:service:DesiredCount" ||
		render(target["ResourceId"]) != "service/${Cluster}/${Service.Name}" {
		t.Errorf("scalable target = %v, want the DesiredCount of the gateway's ECS service", target)
	}
	policy := a.only(t, "AWS::ApplicationAutoScaling::ScalingPolicy").Properties
	config := policy["TargetTrackingScalingPolicyConfiguration"]
	if render(policy["ScalingTargetId"]) != "${Scaling}" || get(config, "TargetValue") != 60.0 ||
		get(config, "PredefinedMetricSpecification", "PredefinedMetricType") != "ECSServiceAverageCPUUtilization" {
		t.Errorf("scaling policy = %v, want ECSServiceAverageCPUUtilization at 60", policy)
	}
	for _, s := range serviceSpecs(settingsFor(t, servicesContext(nil))) {
		if s.autoscales() != (s.Name == gateway) {
			t.Errorf("%s scales automatically: %v, want %v", s.Name, s.autoscales(), s.Name == gateway)
		}
		drainSeconds := deregistrationDelay + (s.Announce + s.Drain).Seconds()
		if scaleIn, _ := get(config, "ScaleInCooldown").(float64); s.autoscales() && scaleIn <= drainSeconds {
			t.Errorf("ScaleInCooldown of %s = %v s, want more than %v, the time that a task needs to drain", s.Name,
				scaleIn, drainSeconds)
		}
		if scaleOut, _ := get(config, "ScaleOutCooldown").(float64); s.autoscales() && scaleOut != 60 {
			t.Errorf("ScaleOutCooldown of %s = %v s, want 60, the interval of the CPU metric", s.Name, scaleOut)
		}
	}
}

// TestGatewaysAreReleasedAsCanaries checks that new tasks get a tenth of the new connections for five minutes, and then
// all of them. The alarm for the gateway's own faults rolls a release back. Without a canary, the listener and the
// target groups are the same, because ECS switches between the groups in each release.
func TestGatewaysAreReleasedAsCanaries(t *testing.T) {
	stack := func(context map[string]string) (assembly, map[string]any) {
		for _, s := range serviceSpecs(settingsFor(t, context)) {
			if s.Name == gateway {
				a := synthesize(t, context).serviceStack(t, s)
				return a, a.only(t, "AWS::ECS::Service").Properties
			}
		}
		t.Fatal("no service is the gateway, want one")
		return assembly{}, nil
	}
	canary, canaryService := stack(servicesContext(nil))
	allAtOnce, allAtOnceService := stack(alarmTopicContext)
	for name, tt := range map[string]struct {
		config any
		want   []any // strategy, percentage, minutes of the canary and after it
	}{
		"canary":      {canaryService["DeploymentConfiguration"], []any{"CANARY", 10.0, 5.0, 5.0}},
		"all at once": {allAtOnceService["DeploymentConfiguration"], []any{"BLUE_GREEN", nil, nil, 0.0}},
	} {
		d := tt.config
		got := []any{
			get(d, "Strategy"), get(d, "CanaryConfiguration", "CanaryPercent"),
			get(d, "CanaryConfiguration", "CanaryBakeTimeInMinutes"), get(d, "BakeTimeInMinutes"),
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: strategy, percentage, minutes of the canary and after it = %v, want %v", name, got, tt.want)
		}
		if get(d, "Alarms", "Enable") != true || get(d, "Alarms", "Rollback") != true ||
			!slices.Equal(texts(get(d, "Alarms", "AlarmNames")), []string{"${GatewayFaults}"}) {
			t.Errorf("%s: alarms of the deployment = %v, want GatewayFaults with a rollback", name, get(d, "Alarms"))
		}
		if get(d, "DeploymentCircuitBreaker", "Enable") != true || get(d, "DeploymentCircuitBreaker", "Rollback") != true {
			t.Errorf("%s: deployment configuration = %v, want a circuit breaker with a rollback", name, d)
		}
	}
	// ECS changes the target of the listener. The listener and the target groups have the same properties in every
	// context, so that no update resets the target.
	for _, kind := range []string{"AWS::ElasticLoadBalancingV2::Listener", "AWS::ElasticLoadBalancingV2::TargetGroup"} {
		if !reflect.DeepEqual(canary.all(kind), allAtOnce.all(kind)) {
			t.Errorf("resources %s without a canary differ from those with one, want the same", kind)
		}
	}
	// After every other release the listener forwards to the second group, so the listener must be deleted before that
	// group.
	if after := canary.find("Listener").DependsOn; !slices.Equal(after, []string{"OtherTargets"}) {
		t.Errorf("dependencies of the listener = %v, want the second target group", after)
	}
	loadBalancer := get(canaryService, "LoadBalancers", 0)
	targets, alternate := canary.find("Targets"), canary.find("OtherTargets")
	if !reflect.DeepEqual(targets.Properties, alternate.Properties) {
		t.Errorf("target groups = %v and %v, want the same properties", targets.Properties, alternate.Properties)
	}
	routing := []string{
		render(get(loadBalancer, "TargetGroupArn")),
		render(get(loadBalancer, "AdvancedConfiguration", "AlternateTargetGroupArn")),
		render(get(loadBalancer, "AdvancedConfiguration", "ProductionListenerRule")),
		render(get(loadBalancer, "AdvancedConfiguration", "RoleArn")),
	}
	if want := []string{"${Targets}", "${OtherTargets}", "${Listener}", "${ShiftRole.Arn}"}; !slices.Equal(routing, want) {
		t.Errorf("load balancer settings of the service = %v, want %v", routing, want)
	}
	var actions []string
	for _, s := range canary.grants()["${ShiftRole}"] {
		actions = append(actions, strings.Join(s.actions, " ")+" on "+strings.Join(s.resources, " "))
	}
	slices.Sort(actions)
	want := []string{
		"elasticloadbalancing:DeregisterTargets elasticloadbalancing:RegisterTargets on ${Targets} ${OtherTargets}",
		"elasticloadbalancing:DescribeListeners elasticloadbalancing:DescribeRules " +
			"elasticloadbalancing:DescribeTargetGroups elasticloadbalancing:DescribeTargetHealth on *",
		"elasticloadbalancing:ModifyListener on ${Listener}",
	}
	if !slices.Equal(actions, want) {
		t.Errorf("ShiftRole may %q, want %q", actions, want)
	}
}

// TestMissingTasksAreCountedInBothGroups checks that the gateway's alarm for missing tasks counts the tasks of both
// target groups, because the first group is empty after every other release. The relay has one group.
func TestMissingTasksAreCountedInBothGroups(t *testing.T) {
	for _, s := range serviceSpecs(settingsFor(t, servicesContext(nil))) {
		p := synthesize(t, servicesContext(nil)).serviceStack(t, s).find("Missing").Properties
		var groups []string
		expressions := 0
		metrics, _ := p["Metrics"].([]any)
		for _, m := range metrics {
			if sum, ok := get(m, "Expression").(string); ok {
				expressions++
				if !strings.Contains(sum, "FILL(targets, 0)") || !strings.Contains(sum, " + ") ||
					!strings.Contains(sum, "FILL(others, 0)") {
					// FILL is needed because a group without tasks reports no value.
					t.Errorf("expression for the tasks of %s = %s, want FILL(targets, 0) + FILL(others, 0)", s.Name, sum)
				}
			}
			dimensions, _ := get(m, "MetricStat", "Metric", "Dimensions").([]any)
			for _, d := range dimensions {
				if get(d, "Name") == "TargetGroup" {
					groups = append(groups, render(get(d, "Value")))
				}
			}
		}
		if (expressions > 0) != (s.Name == gateway) {
			t.Errorf("the alarm for missing tasks of %s has %d expressions, want some for the gateway only", s.Name, expressions)
		}
		slices.Sort(groups)
		want := map[string][]string{gateway: {
			"${OtherTargets.TargetGroupFullName}",
			"${Targets.TargetGroupFullName}",
		}}[s.Name]
		if !slices.Equal(groups, want) || p["Threshold"] != 2.0 || p["TreatMissingData"] != "breaching" ||
			p["ComparisonOperator"] != "LessThanThreshold" {
			t.Errorf("alarm for missing tasks of %s = %v, want fewer than 2 in the groups %v, or missing data", s.Name,
				p, want)
		}
	}
}

// TestDNSRecordsAreWeighted checks that all modes use weighted records. Clients can then be moved by changing weights,
// or by adding or removing a record, without a conflict with another kind of record. Each record has the same logical
// id in every mode.
func TestDNSRecordsAreWeighted(t *testing.T) {
	const toFunction, toProcess = "FunctionName function %d ${GatewayDomain", "ProcessName process %d ${"
	for name, tt := range map[string]struct {
		context map[string]string
		want    []string // id, identifier, weight and target
	}{
		"no hosted zone":    {map[string]string{"gateway": "both"}, nil},
		"only the function": {map[string]string{"hostedZone": "Z1"}, []string{fmt.Sprintf(toFunction, 100)}},
		"both with the default weight": {
			map[string]string{"hostedZone": "Z1", "gateway": "both"},
			[]string{fmt.Sprintf(toFunction, 100), fmt.Sprintf(toProcess, 0)},
		},
		"both with weights": {
			map[string]string{"hostedZone": "Z1", "gateway": "both", "gatewayContainerWeight": "30"},
			[]string{fmt.Sprintf(toFunction, 70), fmt.Sprintf(toProcess, 30)},
		},
		"both with all clients at the processes": {
			map[string]string{"hostedZone": "Z1", "gateway": "both", "gatewayContainerWeight": "100"},
			[]string{fmt.Sprintf(toFunction, 0), fmt.Sprintf(toProcess, 100)},
		},
		"only the processes": {
			map[string]string{"hostedZone": "Z1", "gateway": "container"},
			[]string{fmt.Sprintf(toProcess, 100)},
		},
	} {
		a := synthesizeFew(t, minimalContext(tt.context))
		var got []string
		for id, r := range a.all("AWS::Route53::RecordSet") {
			p := r.Properties
			// The alias needs the zone of AWS's own name of the target, not the operator's zone.
			if zone := render(get(p, "AliasTarget", "HostedZoneId")); !strings.Contains(zone,
				map[string]string{"FunctionName": "RegionalHostedZoneId", "ProcessName": "CanonicalHostedZoneID"}[id]) {
				t.Errorf("%s: alias of %s is in the zone %s, want the regional zone of the API or the zone of the load balancer",
					name, id, zone)
			}
			for _, dependency := range []string{"GatewayDomainMapping", "GatewayGatewayCalledByGateway", "GatewayPolicy"} {
				if after := strings.Join(r.DependsOn, " "); id == "FunctionName" && !strings.Contains(after, dependency) {
					t.Errorf("%s: dependencies of %s = %v, want %s in them", name, id, r.DependsOn, dependency)
				}
			}
			got = append(got, fmt.Sprintf("%s %v %v %s", id, p["SetIdentifier"], p["Weight"],
				render(get(p, "AliasTarget", "DNSName"))))
			if p["HostedZoneId"] != "Z1" || p["Name"] != "*.apis.example.com" || p["Type"] != "A" {
				t.Errorf("%s: record %s = %v, want A for *.apis.example.com in Z1", name, id, p)
			}
			alias := p["AliasTarget"]
			if get(alias, "EvaluateTargetHealth") != false || render(get(alias, "HostedZoneId")) == "null" {
				t.Errorf("%s: alias target of %s = %v, want a zone and EvaluateTargetHealth false", name, id, alias)
			}
		}
		for id, mapping := range a.all("AWS::ApiGateway::BasePathMapping") {
			if !strings.Contains(strings.Join(mapping.DependsOn, " "), "Stage") {
				t.Errorf("%s: dependencies of the mapping %s = %v, want its stage in them", name, id, mapping.DependsOn)
			}
		}
		slices.Sort(got)
		if !slices.EqualFunc(got, tt.want, strings.HasPrefix) {
			t.Errorf("%s: DNS records = %q, want records that begin with %q", name, got, tt.want)
		}
	}
}

// TestGatewaysRunInTheOperatorsNetwork checks that the gateway's stack creates only security groups in the operator's
// network. Tasks have public addresses only if the load balancer has no subnets of its own. The relay has a network of
// its own.
func TestGatewaysRunInTheOperatorsNetwork(t *testing.T) {
	const tasks, balancerSubnets = "subnet-00000001 subnet-00000002", "subnet-00000003 subnet-00000004"
	for name, tt := range map[string]struct {
		overrides       map[string]string
		balancerSubnets string
		assignPublicIP  any
	}{
		"public subnets":  {nil, tasks, "ENABLED"},
		"private subnets": {map[string]string{"balancerSubnets": balancerSubnets}, balancerSubnets, "DISABLED"},
	} {
		context := servicesContext(map[string]string{"vpc": "vpc-01234567", "subnets": tasks, "privateUpstreams": "true"})
		maps.Copy(context, tt.overrides)
		for _, s := range serviceSpecs(settingsFor(t, context)) {
			a := synthesizeFew(t, context).serviceStack(t, s)
			networkParts := 0
			for _, stack := range a.stacks {
				for _, r := range stack.Resources {
					if strings.HasPrefix(r.Type, "AWS::EC2::") && !strings.HasPrefix(r.Type, "AWS::EC2::SecurityGroup") {
						networkParts++
					}
				}
			}
			if (networkParts > 0) != (s.Name != gateway) {
				t.Errorf("%s: the stack of %s has %d parts of a network, want some for other services than the gateway only",
					name, s.Name, networkParts)
			}
			if s.Name != gateway {
				continue
			}
			network := get(a.only(t, "AWS::ECS::Service").Properties, "NetworkConfiguration", "AwsvpcConfiguration")
			balancerProps := a.only(t, "AWS::ElasticLoadBalancingV2::LoadBalancer").Properties
			if got := strings.Join(texts(get(network, "Subnets")), " "); got != tasks ||
				get(network, "AssignPublicIp") != tt.assignPublicIP {
				t.Errorf("%s: tasks are in %s with AssignPublicIp %v, want %s with %v", name, got, get(network, "AssignPublicIp"),
					tasks, tt.assignPublicIP)
			}
			if got := strings.Join(texts(balancerProps["Subnets"]), " "); got != tt.balancerSubnets {
				t.Errorf("%s: subnets of the load balancer = %s, want %s", name, got, tt.balancerSubnets)
			}
			for _, kind := range []string{"AWS::EC2::SecurityGroup", "AWS::ElasticLoadBalancingV2::TargetGroup"} {
				for id, r := range a.all(kind) {
					if r.Properties["VpcId"] != "vpc-01234567" {
						t.Errorf("%s: VPC of %s = %v, want vpc-01234567", name, id, r.Properties["VpcId"])
					}
				}
			}
			environment := map[string]string{}
			variables, _ := a.containerDefinition(t)["Environment"].([]any)
			for _, v := range variables {
				environment[get(v, "Name").(string)] = render(get(v, "Value"))
			}
			if environment["GATEWRIGHT_PRIVATE_UPSTREAMS"] != "true" {
				t.Errorf("%s: GATEWRIGHT_PRIVATE_UPSTREAMS = %q, want true", name, environment["GATEWRIGHT_PRIVATE_UPSTREAMS"])
			}
		}
	}
}
