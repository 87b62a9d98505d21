package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/infra/removals"
)

// servesBy is what of an installation serves deployments.
type servesBy struct {
	apis, functions, services, domains int
}

func (a assembly) servesBy() (out servesBy) {
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

// TestDeploymentsAreServedByWhatTheContextSays, and by nothing else: neither costs money or may do anything where the other does the work.
func TestDeploymentsAreServedByWhatTheContextSays(t *testing.T) {
	for mode, want := range map[string]servesBy{
		"": {1, 1, 0, 1}, "lambda": {1, 1, 0, 1}, "both": {1, 1, 1, 1}, "container": {0, 0, 1, 0},
	} {
		context := map[string]string{}
		if mode != "" {
			context["gateway"] = mode
		}
		a := synthesiseFew(t, needed(context))
		if got := a.servesBy(); got != want {
			t.Errorf("gateway=%s: there are %+v, want %+v", mode, got, want)
		}
		root := a.stacks["gatewright-dev.template.json"]
		if got := root.Outputs["GatewayAddress"].Value; got != "https://*.apis.example.com" {
			t.Errorf("gateway=%s: the outputs say that deployments are at %v", mode, got)
		}
		if _, ok := root.Resources["ConcurrencyNearlyUsed"]; ok {
			t.Error("the alarm is in another stack")
		}
		if told := a.find("ConcurrencyNearlyUsed").Type != ""; told != (want.functions > 0) {
			t.Errorf("gateway=%s: calls at once of a function that reserves none are told of: %v", mode, told)
		}
	}
}

// TestWithoutTheFunctionNothingOfItIsLeft but its log and that of its API: no role, alarm, route or release of it.
func TestWithoutTheFunctionNothingOfItIsLeft(t *testing.T) {
	a := synthesise(t, needed(map[string]string{"gateway": "container"}))
	for file, stack := range a.stacks {
		if strings.Contains(file, "GatewayProcess") {
			continue
		}
		for id, r := range stack.Resources {
			of := strings.TrimPrefix(id, "Gateway")
			if of == id || strings.HasPrefix(of, "Process") || strings.HasPrefix(of, "Faults") || of == "Logs" || strings.HasPrefix(of, "AccessLogs") {
				continue // faults are told by what processes write, and the logs of the function and its API stay
			}
			t.Errorf("%s, an %s, is left of it in %s", id, r.Type, file)
		}
		logs := strings.NewReplacer(`"/aws/lambda/gatewright-dev-gateway"`, "", `"/aws/apigateway/gatewright-dev-gateway"`, "")
		if strings.Contains(logs.Replace(string(a.raw[file])), `gatewright-dev-gateway"`) {
			t.Errorf("%s names the function or its API", file)
		}
	}
}

// TestTheContextSaysHowManyGatewaysThereAre, and how large each is.
func TestTheContextSaysHowManyGatewaysThereAre(t *testing.T) {
	for _, tt := range []struct {
		context map[string]string
		want    []any
	}{
		{map[string]string{"gateway": "both"}, []any{nil, 2.0, 10.0, "512", "1024"}},
		{map[string]string{"gateway": "container", "gatewayTasks": "4", "gatewayTasksMost": "4", "gatewayTaskMemory": "2048"}, []any{nil, 4.0, 4.0, "1024", "2048"}},
	} {
		a := synthesiseFew(t, needed(tt.context))
		task, target := a.only(t, "AWS::ECS::TaskDefinition").Properties, a.only(t, "AWS::ApplicationAutoScaling::ScalableTarget").Properties
		if got := []any{a.only(t, "AWS::ECS::Service").Properties["DesiredCount"], target["MinCapacity"], target["MaxCapacity"], task["Cpu"], task["Memory"]}; !slices.Equal(got, tt.want) {
			t.Errorf("with %v there are %v, want %v", tt.context, got, tt.want)
		}
	}
}

// TestGatewaysGrowByTheirProcessors, and the relay does not grow. One is taken away only when the one before has left: as long as the load
// balancer and the process take for it.
func TestGatewaysGrowByTheirProcessors(t *testing.T) {
	a := synthesise(t, serving(nil))
	target := a.only(t, "AWS::ApplicationAutoScaling::ScalableTarget").Properties
	if target["ServiceNamespace"] != "ecs" || target["ScalableDimension"] != "ecs:service:DesiredCount" || render(target["ResourceId"]) != "service/${Cluster}/${Service.Name}" {
		t.Errorf("what grows is %v", target)
	}
	policy := a.only(t, "AWS::ApplicationAutoScaling::ScalingPolicy").Properties
	by := policy["TargetTrackingScalingPolicyConfiguration"]
	if render(policy["ScalingTargetId"]) != "${Scaling}" || get(by, "TargetValue") != 60.0 || get(by, "PredefinedMetricSpecification", "PredefinedMetricType") != "ECSServiceAverageCPUUtilization" {
		t.Errorf("it grows by %v", policy)
	}
	for _, s := range declaredServices(settingsFor(t, serving(nil))) {
		if s.grows() != (s.Name == gateway) {
			t.Errorf("%s grows: %v", s.Name, s.grows())
		}
		leaves := leavingFirst + (s.Announce + s.Drain).Seconds()
		if in, _ := get(by, "ScaleInCooldown").(float64); s.grows() && in <= leaves {
			t.Errorf("one more task is taken away after %v s, and one takes %v s to leave", in, leaves)
		}
		if out, _ := get(by, "ScaleOutCooldown").(float64); s.grows() && out != 60 {
			t.Errorf("one more task is added after %v s, and processors are measured each minute", out)
		}
	}
}

// TestContextsThatNoServiceCanHaveAreRefused, before anything is deployed, with a line each that says what to do.
func TestContextsThatNoServiceCanHaveAreRefused(t *testing.T) {
	both := func(more map[string]string) map[string]string {
		out := needed(map[string]string{"gateway": "both"})
		maps.Copy(out, more)
		return out
	}
	for name, tt := range map[string]struct {
		context map[string]string
		want    string
	}{
		"too many tasks":             {both(map[string]string{"gatewayTasks": "51"}), "-c gatewayTasks is a whole number between 1 and 50"},
		"no tasks":                   {both(map[string]string{"gatewayTasks": "0"}), "-c gatewayTasks is a whole number between 1 and 50"},
		"a word for a number":        {both(map[string]string{"gatewayTasks": "two"}), "-c gatewayTasks is a whole"},
		"fewest above the most":      {both(map[string]string{"gatewayTasks": "12"}), "-c gatewayTasks=12 is the fewest, and gatewayTasksMost=10 the most: say gatewayTasksMost=12 or more"},
		"the most of a function":     {needed(map[string]string{"gatewayTasksMost": "3"}), "-c gatewayTasksMost is for gateways as processes"},
		"a network of no processes":  {needed(map[string]string{"vpc": "vpc-01234567"}), "-c vpc is for gateways as processes"},
		"a network that is none":     {both(map[string]string{"vpc": "mine"}), "-c vpc is the id of a VPC"},
		"a network without subnets":  {both(map[string]string{"vpc": "vpc-01234567"}), "-c vpc and subnets are said together"},
		"subnets of no network":      {both(map[string]string{"subnets": "subnet-00000001 subnet-00000002"}), "-c vpc and subnets are said together"},
		"one subnet":                 {both(map[string]string{"vpc": "vpc-01234567", "subnets": "subnet-00000001"}), "-c subnets are two or more subnets of the vpc"},
		"one subnet twice":           {both(map[string]string{"vpc": "vpc-01234567", "subnets": "subnet-00000001 subnet-00000001"}), "-c subnets are two or more"},
		"a subnet that is none":      {both(map[string]string{"vpc": "vpc-01234567", "subnets": "subnet-00000001 10.0.0.0/24"}), "-c subnets are two or more"},
		"one for the load balancer":  {both(map[string]string{"vpc": "vpc-01234567", "subnets": "subnet-00000001 subnet-00000002", "balancerSubnets": "subnet-00000003"}), "-c balancerSubnets are two or more"},
		"a subnet for both":          {both(map[string]string{"vpc": "vpc-01234567", "subnets": "subnet-00000001 subnet-00000002", "balancerSubnets": "subnet-00000002 subnet-00000003"}), `-c subnets and balancerSubnets both have "subnet-00000002": leave balancerSubnets out`},
		"too many subnets":           {both(map[string]string{"vpc": "vpc-01234567", "subnets": strings.Repeat("subnet-00000001 ", 17)}), "-c subnets is a list of texts, 16 at most"},
		"a zone that is none":        {needed(map[string]string{"hostedZone": "example.com"}), "-c hostedZone is the id of a hosted zone of Route 53"},
		"a zone for no names":        {map[string]string{"hostedZone": "Z1", "gatewayUrl": "https://{deployment}.example.com"}, "-c hostedZone needs -c gatewayDomain"},
		"a zone of an emulator":      {needed(map[string]string{"hostedZone": "Z1", "emulator": miniStack, "architecture": "x86_64"}), "-c hostedZone needs -c gatewayDomain, whose names it leads, and is not for emulators"},
		"a weight in no zone":        {both(map[string]string{"gatewayContainerWeight": "10"}), "-c gatewayContainerWeight is for hostedZone and gateway=both"},
		"a weight of one":            {needed(map[string]string{"gateway": "container", "hostedZone": "Z1", "gatewayContainerWeight": "10"}), "-c gatewayContainerWeight is for hostedZone and gateway=both"},
		"a weight above all":         {both(map[string]string{"hostedZone": "Z1", "gatewayContainerWeight": "101"}), "-c gatewayContainerWeight is a whole number between 0 and 100"},
		"an emulator":                {both(map[string]string{"emulator": miniStack}), "-c gateway=both is not for emulators"},
		"no domain":                  {map[string]string{"gateway": "both", "gatewayUrl": "https://{deployment}.example.com"}, "-c gateway=both needs -c gatewayDomain"},
		"a memory that is none":      {both(map[string]string{"gatewayTaskMemory": "600"}), "-c gatewayTaskMemory is one"},
		"a bound that is no number":  {both(map[string]string{"gatewayConnectionsPerAddress": "many"}), "-c gatewayConnectionsPerAddress: GATEWRIGHT_CONNECTIONS_PER_ADDRESS is no number"},
		"a bound of no process":      {needed(map[string]string{"gatewayConnectionsPerAddress": "100"}), "which this context does not have"},
		"tasks of a function":        {needed(map[string]string{"gatewayTasks": "2"}), "-c gatewayTasks is for gateways as processes, and gateway=lambda has none: say gateway=both"},
		"their memory":               {needed(map[string]string{"gateway": "lambda", "gatewayTaskMemory": "512"}), "-c gatewayTaskMemory is for gateways as processes"},
		"streams of no function":     {needed(map[string]string{"gateway": "container", "streaming": "true"}), "-c streaming is for the gateway's function, and gateway=container has none: leave streaming out"},
		"a throttle of no function":  {needed(map[string]string{"gateway": "container", "gatewayRate": "10"}), "-c gatewayRate is for the gateway's function"},
		"a mode that there is not":   {needed(map[string]string{"gateway": "ec2"}), "-c gateway is one of lambda, container, both"},
		"no certificate of the API":  {map[string]string{"gateway": "container", "gatewayDomain": "apis.example.com", "apiDomain": "api.example.com"}, "-c certificateArn is needed"},
		"none for what ends TLS not": {map[string]string{"gateway": "both", "gatewayDomain": "apis.example.com"}, "-c certificateArn is needed"},
	} {
		_, err := settingsFrom(tt.context)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line about it: %s", name, err, tt.want)
		}
	}
	if _, err := settingsFrom(map[string]string{"gateway": "container", "gatewayDomain": "apis.example.com"}); err != nil {
		t.Errorf("processes, which have a certificate of their own, need one of ACM: %v", err)
	}
}

// settingsFrom reads a context.
func settingsFrom(context map[string]string) (Settings, error) {
	return settingsOf(func(name string) any {
		if v, ok := context[name]; ok {
			return v
		}
		return nil
	})
}

// stackOfContext is what `make deploy` compares of an installation of this context.
func stackOfContext(t *testing.T, context map[string]string) removals.Stack {
	t.Helper()
	a := synthesiseFew(t, needed(context))
	names := a.stackOf()
	out := removals.Stack{Templates: map[string]removals.Template{}, Protected: true}
	for file, raw := range a.raw {
		var one removals.Template
		if err := json.Unmarshal(raw, &one); err != nil {
			t.Fatal(err)
		}
		out.Templates[names[file]] = one
	}
	return out
}

// TestMovingGoesThroughBoth: what serves deployments is never taken away before something else serves them, nor while clients are
// led to it. These are the templates that a deployment compares.
func TestMovingGoesThroughBoth(t *testing.T) {
	const first, gone = "say gateway=both in infra/stages/dev.json and deploy that first", "or say REMOVE=gateway"
	for _, tt := range []struct {
		from, to map[string]string
		want     []string // a text of each line
	}{
		{map[string]string{"gateway": "lambda"}, map[string]string{"gateway": "both"}, nil},
		{map[string]string{"gateway": "container"}, map[string]string{"gateway": "both"}, nil},
		{map[string]string{"gateway": "both"}, map[string]string{"gateway": "both", "gatewayTasks": "3"}, nil},
		{map[string]string{"gateway": "lambda"}, map[string]string{"gateway": "container"}, []string{first}},
		{map[string]string{"gateway": "container"}, map[string]string{"gateway": "lambda"}, []string{first}},
		{map[string]string{"gateway": "both"}, map[string]string{"gateway": "container"}, []string{gone}},
		{map[string]string{"gateway": "both"}, map[string]string{"gateway": "lambda"}, []string{gone}},
		{map[string]string{"gateway": "both", "hostedZone": "Z1", "gatewayContainerWeight": "90"}, map[string]string{"gateway": "container", "hostedZone": "Z1"}, []string{"10 of 100 clients are led there: say gatewayContainerWeight=100"}},
		{map[string]string{"gateway": "both", "hostedZone": "Z1", "gatewayContainerWeight": "90"}, map[string]string{"gateway": "lambda", "hostedZone": "Z1"}, []string{"90 of 100 clients are led there: say gatewayContainerWeight=0"}},
		{map[string]string{"gateway": "both", "hostedZone": "Z1", "gatewayContainerWeight": "100"}, map[string]string{"gateway": "container", "hostedZone": "Z1"}, []string{gone}},
		{map[string]string{"gateway": "both", "hostedZone": "Z1"}, map[string]string{"gateway": "lambda", "hostedZone": "Z1"}, []string{gone}},
		{map[string]string{"gateway": "both"}, map[string]string{"gateway": "both", "vpc": "vpc-01234567", "subnets": "subnet-00000001 subnet-00000002"}, []string{"while AWS moves none to another: say gateway=lambda in infra/stages/dev.json and deploy that first"}},
		{map[string]string{"gateway": "container", "hostedZone": "Z1"}, map[string]string{"gateway": "both", "hostedZone": "Z1"}, []string{"made by the same deployment: say gatewayContainerWeight=100"}},
		{map[string]string{"gateway": "container", "hostedZone": "Z1"}, map[string]string{"gateway": "both", "hostedZone": "Z1", "gatewayContainerWeight": "100"}, nil},
		{map[string]string{"hostedZone": "Z1"}, map[string]string{"gateway": "both", "hostedZone": "Z1", "gatewayContainerWeight": "100"}, []string{"made by the same deployment: say gatewayContainerWeight=0"}},
		{map[string]string{"hostedZone": "Z1"}, map[string]string{"gateway": "both", "hostedZone": "Z1", "gatewayContainerWeight": "30"}, nil},
		{map[string]string{"hostedZone": "Z1"}, nil, []string{"the records of Z1 by which clients find deployments would be removed: leave hostedZone"}},
		{map[string]string{"hostedZone": "Z1"}, map[string]string{"hostedZone": "Z2"}, []string{"leave hostedZone"}},
		{nil, map[string]string{"hostedZone": "Z1"}, nil},
		{map[string]string{"gateway": "container"}, map[string]string{"gateway": "container", "gatewayDomain": "others.example.com"}, []string{"*.apis.example.com by which clients call would be removed: leave gatewayDomain"}},
	} {
		lines := removals.Refused(removals.Of(stackOfContext(t, tt.from), stackOfContext(t, tt.to)), nil, "infra/stages/dev.json")
		if !slices.EqualFunc(lines, tt.want, strings.Contains) {
			t.Errorf("from %v to %v it says %q, want %q", tt.from, tt.to, lines, tt.want)
		}
		wanted := removals.Refused(removals.Of(stackOfContext(t, tt.from), stackOfContext(t, tt.to)), []string{"gateway", "gatewayDomain", "hostedZone"}, "infra/stages/dev.json")
		if stays := len(tt.want) > 0 && strings.Contains(tt.want[0], "say gateway"); stays != (len(wanted) > 0) {
			t.Errorf("from %v to %v with all of it wanted it says %q", tt.from, tt.to, wanted)
		}
	}
}

// TestGatewaysAreReleasedAsCanaries: a tenth of the new connections for five minutes, all then, and back by what tells of our own faults. The
// context can do without the canary; ECS leads connections by the same two groups then, since they change places at each release.
func TestGatewaysAreReleasedAsCanaries(t *testing.T) {
	stack := func(context map[string]string) (assembly, map[string]any) {
		for _, s := range declaredServices(settingsFor(t, context)) {
			if s.Name == gateway {
				a := synthesise(t, context).of(t, s)
				return a, a.only(t, "AWS::ECS::Service").Properties
			}
		}
		t.Fatal("no gateways")
		return assembly{}, nil
	}
	with, runs := stack(serving(nil))
	without, at := stack(ringing)
	for name, tt := range map[string]struct {
		deployed any
		want     []any // strategy, percent, minutes of the canary and after it
	}{
		"a canary":      {runs["DeploymentConfiguration"], []any{"CANARY", 10.0, 5.0, 5.0}},
		"all at a time": {at["DeploymentConfiguration"], []any{"BLUE_GREEN", nil, nil, 0.0}},
	} {
		d := tt.deployed
		got := []any{get(d, "Strategy"), get(d, "CanaryConfiguration", "CanaryPercent"), get(d, "CanaryConfiguration", "CanaryBakeTimeInMinutes"), get(d, "BakeTimeInMinutes")}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: ECS deploys by %v, want %v", name, got, tt.want)
		}
		if get(d, "Alarms", "Enable") != true || get(d, "Alarms", "Rollback") != true || !slices.Equal(texts(get(d, "Alarms", "AlarmNames")), []string{"${GatewayFaults}"}) {
			t.Errorf("%s: the alarms are %v", name, get(d, "Alarms"))
		}
		if get(d, "DeploymentCircuitBreaker", "Enable") != true || get(d, "DeploymentCircuitBreaker", "Rollback") != true {
			t.Errorf("%s: tasks that do not start end nothing: %v", name, d)
		}
	}
	// What ECS leads elsewhere is the same resource with the same properties, whatever the context says.
	for _, kind := range []string{"AWS::ElasticLoadBalancingV2::Listener", "AWS::ElasticLoadBalancingV2::TargetGroup"} {
		if !reflect.DeepEqual(with.all(kind), without.all(kind)) {
			t.Errorf("without a canary there is another %s", kind)
		}
	}
	// After each other release the listener leads to the second group, which cannot be removed before it.
	if after := with.find("Listener").DependsOn; !slices.Equal(after, []string{"OtherTargets"}) {
		t.Errorf("the listener is removed before %v, want the other group of targets", after)
	}
	leads := get(runs, "LoadBalancers", 0)
	targets, others := with.find("Targets"), with.find("OtherTargets")
	if !reflect.DeepEqual(targets.Properties, others.Properties) {
		t.Errorf("tasks are asked for their health by %v and then by %v", targets.Properties, others.Properties)
	}
	by := []string{render(get(leads, "TargetGroupArn")), render(get(leads, "AdvancedConfiguration", "AlternateTargetGroupArn")), render(get(leads, "AdvancedConfiguration", "ProductionListenerRule")), render(get(leads, "AdvancedConfiguration", "RoleArn"))}
	if want := []string{"${Targets}", "${OtherTargets}", "${Listener}", "${ShiftRole.Arn}"}; !slices.Equal(by, want) {
		t.Errorf("ECS leads connections by %v, want %v", by, want)
	}
	var may []string
	for _, s := range with.grants()["${ShiftRole}"] {
		may = append(may, strings.Join(s.actions, " ")+" on "+strings.Join(s.resources, " "))
	}
	slices.Sort(may)
	want := []string{
		"elasticloadbalancing:DeregisterTargets elasticloadbalancing:RegisterTargets on ${Targets} ${OtherTargets}",
		"elasticloadbalancing:DescribeListeners elasticloadbalancing:DescribeRules elasticloadbalancing:DescribeTargetGroups elasticloadbalancing:DescribeTargetHealth on *",
		"elasticloadbalancing:ModifyListener on ${Listener}",
	}
	if !slices.Equal(may, want) {
		t.Errorf("ECS may %q, want %q", may, want)
	}
}

// TestMissingTasksAreCountedInBothGroups: after each other release the first group is empty.
func TestMissingTasksAreCountedInBothGroups(t *testing.T) {
	for _, s := range declaredServices(settingsFor(t, serving(nil))) {
		p := synthesise(t, serving(nil)).of(t, s).find("Missing").Properties
		var groups []string
		list, _ := p["Metrics"].([]any)
		for _, m := range list {
			if sum, told := get(m, "Expression").(string); told && (!strings.Contains(sum, "FILL(targets, 0)") || !strings.Contains(sum, " + ") || !strings.Contains(sum, "FILL(others, 0)")) {
				t.Errorf("of %s tasks are counted by %s", s.Name, sum) // of a group without any there is no number
			}
			dimensions, _ := get(m, "MetricStat", "Metric", "Dimensions").([]any)
			for _, d := range dimensions {
				if get(d, "Name") == "TargetGroup" {
					groups = append(groups, render(get(d, "Value")))
				}
			}
		}
		slices.Sort(groups)
		want := map[string][]string{gateway: {"${OtherTargets.TargetGroupFullName}", "${Targets.TargetGroupFullName}"}}[s.Name]
		if !slices.Equal(groups, want) || p["Threshold"] != 2.0 || p["TreatMissingData"] != "breaching" || p["ComparisonOperator"] != "LessThanThreshold" {
			t.Errorf("of %s tasks are missed by %v", s.Name, p)
		}
	}
}

// TestNamesAreLedByWeightedRecords in every mode, so that a move changes weights and adds or removes one, and never meets a record that is none of
// them. Each resource is the same one whatever the mode.
func TestNamesAreLedByWeightedRecords(t *testing.T) {
	const toFunction, toProcess = "FunctionName function %d ${GatewayDomain", "ProcessName process %d ${"
	for name, tt := range map[string]struct {
		context map[string]string
		want    []string // id, identifier, weight and where it leads
	}{
		"no zone":            {map[string]string{"gateway": "both"}, nil},
		"the function":       {map[string]string{"hostedZone": "Z1"}, []string{fmt.Sprintf(toFunction, 100)}},
		"both, as they come": {map[string]string{"hostedZone": "Z1", "gateway": "both"}, []string{fmt.Sprintf(toFunction, 100), fmt.Sprintf(toProcess, 0)}},
		"both":               {map[string]string{"hostedZone": "Z1", "gateway": "both", "gatewayContainerWeight": "30"}, []string{fmt.Sprintf(toFunction, 70), fmt.Sprintf(toProcess, 30)}},
		"both at the end":    {map[string]string{"hostedZone": "Z1", "gateway": "both", "gatewayContainerWeight": "100"}, []string{fmt.Sprintf(toFunction, 0), fmt.Sprintf(toProcess, 100)}},
		"the processes":      {map[string]string{"hostedZone": "Z1", "gateway": "container"}, []string{fmt.Sprintf(toProcess, 100)}},
	} {
		a := synthesiseFew(t, needed(tt.context))
		var got []string
		for id, r := range a.all("AWS::Route53::RecordSet") {
			p := r.Properties
			// Not of the operator's zone: of the one that the service has its own names in.
			if zone := render(get(p, "AliasTarget", "HostedZoneId")); !strings.Contains(zone, map[string]string{"FunctionName": "RegionalHostedZoneId", "ProcessName": "CanonicalHostedZoneID"}[id]) {
				t.Errorf("%s: %s leads into the zone %s", name, id, zone)
			}
			for _, first := range []string{"GatewayDomainMapping", "GatewayGatewayCalledByGateway", "GatewayPolicy"} {
				if after := strings.Join(r.DependsOn, " "); id == "FunctionName" && !strings.Contains(after, first) {
					t.Errorf("%s: clients are led to the function before there is the %s", name, first)
				}
			}
			got = append(got, fmt.Sprintf("%s %v %v %s", id, p["SetIdentifier"], p["Weight"], render(get(p, "AliasTarget", "DNSName"))))
			if p["HostedZoneId"] != "Z1" || p["Name"] != "*.apis.example.com" || p["Type"] != "A" || get(p, "AliasTarget", "EvaluateTargetHealth") != false || render(get(p, "AliasTarget", "HostedZoneId")) == "null" {
				t.Errorf("%s: %s is %v", name, id, p)
			}
		}
		for id, mapping := range a.all("AWS::ApiGateway::BasePathMapping") {
			if !strings.Contains(strings.Join(mapping.DependsOn, " "), "Stage") {
				t.Errorf("%s: %s leads to an API before there is its stage", name, id)
			}
		}
		slices.Sort(got)
		if !slices.EqualFunc(got, tt.want, strings.HasPrefix) {
			t.Errorf("%s: names are led by %q, want %q", name, got, tt.want)
		}
	}
}

// TestGatewaysRunInTheOperatorsNetwork where the context names one: nothing of it is changed, tasks have public addresses in public subnets alone,
// and the relay stays in a network of its own.
func TestGatewaysRunInTheOperatorsNetwork(t *testing.T) {
	const tasks, fronts = "subnet-00000001 subnet-00000002", "subnet-00000003 subnet-00000004"
	for name, tt := range map[string]struct {
		more   map[string]string
		fronts string
		public any
	}{
		"public subnets":  {nil, tasks, "ENABLED"},
		"private subnets": {map[string]string{"balancerSubnets": fronts}, fronts, "DISABLED"},
	} {
		context := serving(map[string]string{"vpc": "vpc-01234567", "subnets": tasks, "privateUpstreams": "true"})
		maps.Copy(context, tt.more)
		for _, s := range declaredServices(settingsFor(t, context)) {
			a := synthesiseFew(t, context).of(t, s)
			made := 0
			for _, stack := range a.stacks {
				for _, r := range stack.Resources {
					if strings.HasPrefix(r.Type, "AWS::EC2::") && !strings.HasPrefix(r.Type, "AWS::EC2::SecurityGroup") {
						made++
					}
				}
			}
			if (made > 0) != (s.Name != gateway) {
				t.Errorf("%s: %d parts of a network are made for %s", name, made, s.Name)
			}
			if s.Name != gateway {
				continue
			}
			network := get(a.only(t, "AWS::ECS::Service").Properties, "NetworkConfiguration", "AwsvpcConfiguration")
			at := a.only(t, "AWS::ElasticLoadBalancingV2::LoadBalancer").Properties
			if got := strings.Join(texts(get(network, "Subnets")), " "); got != tasks || get(network, "AssignPublicIp") != tt.public {
				t.Errorf("%s: tasks are in %s, with addresses of their own: %v", name, got, get(network, "AssignPublicIp"))
			}
			if got := strings.Join(texts(at["Subnets"]), " "); got != tt.fronts {
				t.Errorf("%s: the load balancer is in %s", name, got)
			}
			for _, kind := range []string{"AWS::EC2::SecurityGroup", "AWS::ElasticLoadBalancingV2::TargetGroup"} {
				for id, r := range a.all(kind) {
					if r.Properties["VpcId"] != "vpc-01234567" {
						t.Errorf("%s: %s is in %v", name, id, r.Properties["VpcId"])
					}
				}
			}
			told := map[string]string{}
			list, _ := a.container(t)["Environment"].([]any)
			for _, v := range list {
				told[get(v, "Name").(string)] = render(get(v, "Value"))
			}
			if told["GATEWRIGHT_PRIVATE_UPSTREAMS"] != "true" {
				t.Errorf("%s: private addresses are told to be %s", name, told["GATEWRIGHT_PRIVATE_UPSTREAMS"])
			}
		}
	}
}
