package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/infra/image"
	"github.com/gatewright/gatewright/internal/golden"
	"github.com/gatewright/gatewright/shared/api"
)

// serving is needed with every service.
func serving(more map[string]string) map[string]string {
	out := needed(map[string]string{"relayDomain": "relay.example.com", "gateway": "both", "gatewayConnectionsPerAddress": "500"})
	maps.Copy(out, more)
	return out
}

// of gives the assembly with the stack of a service alone.
func (a assembly) of(t *testing.T, s deployment) assembly {
	t.Helper()
	for name, stack := range a.stacks {
		if strings.Contains(name, "gatewrightdev"+s.stack()) {
			return assembly{stacks: map[string]template{name: stack}}
		}
	}
	t.Fatalf("%s has no stack of its own", s.Name)
	return assembly{}
}

// container gives the one container of a service's tasks.
func (a assembly) container(t *testing.T) map[string]any {
	t.Helper()
	all, _ := a.only(t, "AWS::ECS::TaskDefinition").Properties["ContainerDefinitions"].([]any)
	if len(all) != 1 {
		t.Fatalf("a task has %d containers, want one", len(all))
	}
	return all[0].(map[string]any)
}

// TestServicesAreListed has a file for each service: how it runs, who reaches it, what
// it may do and what watches it.
func TestServicesAreListed(t *testing.T) {
	a := synthesise(t, serving(nil))
	listed := map[string]bool{}
	for _, s := range declaredServices(settingsFor(t, serving(nil))) {
		listed[s.Name+".txt"] = true
		golden.Equal(t, filepath.Join("testdata/services", s.Name+".txt"), a.of(t, s).describeService(t, s))
	}
	entries, err := os.ReadDir("testdata/services")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !listed[e.Name()] {
			t.Errorf("testdata/services/%s is of no service: remove it", e.Name())
		}
	}
}

// describeService writes what belongs to a service, whose stack the assembly is.
func (a assembly) describeService(t *testing.T, s deployment) string {
	t.Helper()
	var out strings.Builder
	task, runs := a.only(t, "AWS::ECS::TaskDefinition").Properties, a.only(t, "AWS::ECS::Service").Properties
	tasks := fmt.Sprint(runs["DesiredCount"])
	if s.grows() {
		of := a.only(t, "AWS::ApplicationAutoScaling::ScalableTarget").Properties
		tasks = fmt.Sprintf("%v to %v", of["MinCapacity"], of["MaxCapacity"])
	}
	fmt.Fprintf(&out, "%sService %s tasks, %v CPU units, %v MB, %s, stopped after %v s\n", exported(s.Name), tasks, task["Cpu"], task["Memory"],
		get(task, "RuntimePlatform", "CpuArchitecture"), a.container(t)["StopTimeout"])

	out.WriteString("\nreached\n")
	for _, line := range a.rules() {
		fmt.Fprintf(&out, "    %s\n", line)
	}
	out.WriteString("\nis told\n")
	for _, kind := range []string{"Environment", "Secrets"} {
		list, _ := a.container(t)[kind].([]any)
		for _, v := range list {
			value := get(v, "Value")
			if kind == "Secrets" {
				value = get(v, "ValueFrom")
			}
			fmt.Fprintf(&out, "    %s: %s\n", get(v, "Name"), render(value))
		}
	}
	grants := a.grants()
	for _, role := range slices.Sorted(maps.Keys(grants)) {
		fmt.Fprintf(&out, "\n%s may\n", role)
		for _, s := range grants[role] {
			fmt.Fprintf(&out, "    %s\n", strings.Join(s.resources, " "))
			for _, action := range s.actions {
				fmt.Fprintf(&out, "        %s\n", action)
			}
			for _, space := range s.spaces {
				fmt.Fprintf(&out, "        of %s\n", space)
			}
		}
	}
	all := func(string) bool { return true }
	fmt.Fprintf(&out, "\nalarms, by %d metrics\n", a.alarmMetrics())
	a.listAlarms(&out, all, nil)
	out.WriteString("\nresources\n")
	a.countResources(&out, all, nil)
	return out.String()
}

// alarmMetrics is how many metrics the alarms look at, by which they are billed.
func (a assembly) alarmMetrics() (n int) {
	for _, stack := range a.stacks { // services' alarms have the same names
		for _, r := range stack.Resources {
			if r.Type != "AWS::CloudWatch::Alarm" {
				continue
			}
			list, _ := r.Properties["Metrics"].([]any)
			for _, m := range list {
				if get(m, "MetricStat") != nil {
					n++
				}
			}
			if list == nil {
				n++
			}
		}
	}
	return n
}

// rules lists what security groups let through, sorted.
func (a assembly) rules() (out []string) {
	for kind, sides := range map[string][2]string{
		"AWS::EC2::SecurityGroupIngress": {"SourceSecurityGroupId", "from"},
		"AWS::EC2::SecurityGroupEgress":  {"DestinationSecurityGroupId", "to"},
	} {
		for _, r := range a.all(kind) {
			p := r.Properties
			other := p["CidrIp"]
			if other == nil {
				other = p[sides[0]]
			}
			out = append(out, fmt.Sprintf("%s %s %s at %v to %v", render(p["GroupId"]), sides[1], render(other), p["FromPort"], p["ToPort"]))
		}
	}
	slices.Sort(out)
	return out
}

// TestAServiceMayDoWhatItDeclares and nothing else, by another way than the one that
// made its role: the uses' own words.
func TestAServiceMayDoWhatItDeclares(t *testing.T) {
	words := map[api.Use][]string{
		api.GetItem: {"dynamodb:GetItem"}, api.BatchGetItem: {"dynamodb:BatchGetItem"}, api.Query: {"dynamodb:Query"}, api.PutItem: {"dynamodb:PutItem"},
		api.UpdateItem: {"dynamodb:UpdateItem"}, api.DeleteItem: {"dynamodb:DeleteItem"}, api.CheckItem: {"dynamodb:ConditionCheckItem"},
		api.RootKey: {"kms:Decrypt", "dynamodb:GetItem"}, api.ReadArtifact: {"s3:GetObject"},
	}
	on := func(action string) string {
		switch {
		case strings.HasPrefix(action, "kms:"):
			return "${RootKey.Arn}"
		case strings.HasPrefix(action, "s3:"):
			return "arn:${AWS::Partition}:s3:::gatewright-dev-${AWS::AccountId}-${AWS::Region}/artifacts/*"
		}
		return "${Table.Arn}"
	}
	for _, s := range declaredServices(settingsFor(t, serving(nil))) {
		want := map[string]bool{}
		for _, use := range s.Uses {
			if words[use] == nil {
				t.Errorf("%s declares %q: say here which actions that is", s.Name, use)
			}
			for _, action := range words[use] {
				want[action] = true
			}
		}
		has := map[string]bool{}
		for _, statement := range synthesise(t, serving(nil)).of(t, s).grants()["${TaskRole}"] {
			for _, action := range statement.actions {
				has[action] = true
				if !slices.Equal(statement.resources, []string{on(action)}) {
					t.Errorf("%s may %s on %v, want %s", s.Name, action, statement.resources, on(action))
				}
			}
		}
		if !maps.Equal(has, want) {
			t.Errorf("%s may %v, want %v", s.Name, slices.Sorted(maps.Keys(has)), slices.Sorted(maps.Keys(want)))
		}
	}
}

// TestTasksAreReachedByTheirBalancerAndEachOther, at their port, and by nobody else.
func TestTasksAreReachedByTheirBalancerAndEachOther(t *testing.T) {
	for _, s := range declaredServices(settingsFor(t, serving(nil))) {
		a := synthesise(t, serving(nil)).of(t, s)
		want := []string{
			fmt.Sprintf("${BalancerGroup.GroupId} from 0.0.0.0/0 at %d to %d", s.Port.Public, s.Port.Public),
			fmt.Sprintf("${BalancerGroup.GroupId} to ${TaskGroup.GroupId} at %d to %d", s.Port.Listens, s.Port.Listens),
			fmt.Sprintf("${TaskGroup.GroupId} from ${BalancerGroup.GroupId} at %d to %d", s.Port.Listens, s.Port.Listens),
		}
		switch s.Name {
		case "relay":
			want = append(want,
				fmt.Sprintf("${TaskGroup.GroupId} from ${TaskGroup.GroupId} at %d to %d", s.Port.Listens, s.Port.Listens),
				fmt.Sprintf("${TaskGroup.GroupId} to ${TaskGroup.GroupId} at %d to %d", s.Port.Listens, s.Port.Listens),
				"${TaskGroup.GroupId} to 0.0.0.0/0 at 443 to 443")
		case "gateway": // asked for its health where no client is let in; projects call any port
			want = append(want,
				"${BalancerGroup.GroupId} to ${TaskGroup.GroupId} at 8081 to 8081",
				"${TaskGroup.GroupId} from ${BalancerGroup.GroupId} at 8081 to 8081",
				"${TaskGroup.GroupId} to 0.0.0.0/0 at 1 to 65535")
		default:
			t.Errorf("say here who reaches %s", s.Name)
		}
		slices.Sort(want)
		if got := a.rules(); !slices.Equal(got, want) {
			t.Errorf("the rules are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		for id, group := range a.all("AWS::EC2::SecurityGroup") {
			// Without a rule in the group itself, EC2 adds one that lets out everything.
			if in, out := group.Properties["SecurityGroupIngress"], get(group.Properties, "SecurityGroupEgress", 0, "CidrIp"); in != nil || out != "255.255.255.255/32" {
				t.Errorf("%s has rules of its own: in %v, out %v", id, in, out)
			}
		}
		network := get(a.only(t, "AWS::ECS::Service").Properties, "NetworkConfiguration", "AwsvpcConfiguration")
		if groups := texts(get(network, "SecurityGroups")); !slices.Equal(groups, []string{"${TaskGroup.GroupId}"}) {
			t.Errorf("tasks are in the groups %v", groups)
		}
		if groups := texts(a.only(t, "AWS::ElasticLoadBalancingV2::LoadBalancer").Properties["SecurityGroups"]); !slices.Equal(groups, []string{"${BalancerGroup.GroupId}"}) {
			t.Errorf("the load balancer is in the groups %v", groups)
		}
	}
}

// TestEndpointsLetThroughWhatIsDeclared: a service that calls nothing for projects reaches the installation's table and bucket by them, as its
// role may, and the layers of its image. What projects call is anybody's.
func TestEndpointsLetThroughWhatIsDeclared(t *testing.T) {
	for _, s := range declaredServices(settingsFor(t, serving(nil))) {
		a := synthesise(t, serving(nil)).of(t, s)
		got := map[string][]string{}
		for id, e := range a.all("AWS::EC2::VPCEndpoint") {
			p := e.Properties
			if p["VpcEndpointType"] != "Gateway" || len(texts(p["RouteTableIds"])) != 1 || render(p["VpcId"]) != "${Network}" {
				t.Errorf("%s of %s is %v", id, s.Name, p)
			}
			name := strings.TrimPrefix(render(p["ServiceName"]), "com.amazonaws.${AWS::Region}.")
			statements, _ := get(p, "PolicyDocument", "Statement").([]any)
			for _, one := range statements {
				for _, granted := range a.grants()["${TaskRole}"] { // those of a statement are held to the same spaces
					if slices.Equal(granted.actions, texts(get(one, "Action"))) && !slices.Equal(granted.spaces, spacesOf(one)) {
						t.Errorf("the endpoint %s of %s lets through %v of the spaces %v, and the role %v", id, s.Name, granted.actions, spacesOf(one), granted.spaces)
					}
				}
				for _, action := range texts(get(one, "Action")) {
					for _, on := range texts(get(one, "Resource")) {
						got[name] = append(got[name], fmt.Sprintf("%v %s on %s if of %s", get(one, "Effect"), action, on, render(get(one, "Condition", "StringEquals", "aws:PrincipalAccount"))))
					}
				}
			}
			slices.Sort(got[name])
		}
		const ours = " on ${Table.Arn} if of ${AWS::AccountId}"
		want := map[string]map[string][]string{
			"relay": {
				"dynamodb": {"Allow dynamodb:GetItem" + ours, "Allow dynamodb:PutItem" + ours, "Allow dynamodb:Query" + ours},
				"s3":       {"Allow s3:GetObject on arn:${AWS::Partition}:s3:::prod-${AWS::Region}-starport-layer-bucket/* if of null"},
			},
			"gateway": {"dynamodb": {"Allow * on * if of null"}, "s3": {"Allow * on * if of null"}},
		}[s.Name]
		if !maps.EqualFunc(got, want, slices.Equal) {
			t.Errorf("the endpoints of %s let through %q, want %q", s.Name, got, want)
		}
	}
}

// TestAServiceTellsItsSpansWhereTheContextSays: its way out has the collector's port.
func TestAServiceTellsItsSpansWhereTheContextSays(t *testing.T) {
	for collector, want := range map[string]string{
		"https://collector.example.com:4318": "at 4318 to 4318", "http://collector.example.com": "at 80 to 80", "https://collector.example.com": "",
	} {
		a := synthesiseFew(t, needed(map[string]string{"relayDomain": "relay.example.com", "otlpEndpoint": collector}))
		got := ""
		for _, r := range a.rules() {
			if after, ok := strings.CutPrefix(r, "${TaskGroup.GroupId} to 0.0.0.0/0 "); ok && !strings.Contains(after, "443") {
				got = after
			}
		}
		if got != want {
			t.Errorf("with the collector %s there is a way out %q, want %q", collector, got, want)
		}
	}
}

// TestWhatATaskDrainsIsNotCut: not by its load balancer, which by default ends the
// connections of a target that calls itself unhealthy, and not by ECS before its time.
func TestWhatATaskDrainsIsNotCut(t *testing.T) {
	for _, s := range declaredServices(settingsFor(t, serving(nil))) {
		a := synthesise(t, serving(nil)).of(t, s)
		if stopped, _ := a.container(t)["StopTimeout"].(float64); stopped <= (s.Announce+s.Drain).Seconds() || stopped > 120 {
			t.Errorf("%s drains for %s and is killed after %v s; Fargate takes 120 at most", s.Name, s.Drain, stopped)
		}
		groups := a.all("AWS::ElasticLoadBalancingV2::TargetGroup")
		if want := map[string]int{"relay": 1, "gateway": 2}[s.Name]; len(groups) != want {
			t.Errorf("%s has %d groups of targets, want %d", s.Name, len(groups), want)
		}
		for _, group := range groups {
			targets := group.Properties
			attributes := map[string]any{}
			list, _ := targets["TargetGroupAttributes"].([]any)
			for _, one := range list {
				attributes[get(one, "Key").(string)] = get(one, "Value")
			}
			for _, name := range []string{"deregistration_delay.connection_termination.enabled", "target_health_state.unhealthy.connection_termination.enabled"} {
				if attributes[name] != "false" {
					t.Errorf("%s is %v", name, attributes[name])
				}
			}
			asked := []any{targets["HealthCheckProtocol"], targets["HealthCheckPort"], targets["HealthCheckPath"]}
			if want := map[string][]any{"relay": {"HTTPS", "traffic-port", "/health"}, "gateway": {"HTTP", "8081", "/readyz"}}[s.Name]; !slices.Equal(asked, want) {
				t.Errorf("%s is asked for its health by %v, want %v", s.Name, asked, want)
			}
			if targets["Protocol"] != "TCP" || targets["TargetType"] != "ip" {
				t.Errorf("its targets are %v", targets)
			}
			// What relays know of each other's addresses they ask by, so that these have the load balancer's.
			if want := map[string]any{"relay": "false", "gateway": "true"}[s.Name]; attributes["preserve_client_ip.enabled"] != want {
				t.Errorf("%s sees its clients' addresses: %v, want %v", s.Name, attributes["preserve_client_ip.enabled"], want)
			}
		}
		listener := a.only(t, "AWS::ElasticLoadBalancingV2::Listener").Properties
		if listener["Protocol"] != "TCP" || listener["Port"] != float64(s.Port.Public) || listener["Certificates"] != nil {
			t.Errorf("TLS does not end in the tasks: %v", listener)
		}
		runs := a.only(t, "AWS::ECS::Service").Properties
		if d := runs["DeploymentConfiguration"]; get(d, "MinimumHealthyPercent") != 100.0 || get(d, "MaximumPercent") != 200.0 {
			t.Errorf("a deployment takes tasks away first: %v", d)
		}
		if want := map[string]any{"relay": 2.0, "gateway": nil}[s.Name]; runs["DesiredCount"] != want {
			t.Errorf("%v tasks of %s, want %v", runs["DesiredCount"], s.Name, want)
		}
		zones := map[string]bool{}
		for _, subnet := range a.all("AWS::EC2::Subnet") {
			zones[render(subnet.Properties["AvailabilityZone"])] = true
		}
		if len(zones) < 2 {
			t.Errorf("%d tasks are in %d zones", s.Copies, len(zones))
		}
	}
}

// TestTasksRunOurBinaryAndKnowTheirInstallation, with nothing that they could write to.
func TestTasksRunOurBinaryAndKnowTheirInstallation(t *testing.T) {
	settings := settingsFor(t, serving(nil))
	for _, s := range declaredServices(settings) {
		c := synthesise(t, serving(nil)).of(t, s).container(t)
		made, err := image.Of(settings.container(s.Name), "arm64")
		if err != nil {
			t.Fatal(err)
		}
		digest, err := made.Digest()
		if err != nil {
			t.Fatal(err)
		}
		if name := render(c["Image"]); !strings.HasSuffix(name, "/cdk-hnb659fds-container-assets-${AWS::AccountId}-${AWS::Region}@"+digest.String()) {
			t.Errorf("%s runs %s, which is not its image %s", s.Name, name, digest)
		}
		if c["ReadonlyRootFilesystem"] != true || c["Privileged"] != false || !slices.Equal(texts(get(c, "LinuxParameters", "Capabilities", "Drop")), []string{"ALL"}) {
			t.Errorf("%s may do more than run: %v", s.Name, c)
		}
		told := map[string]string{}
		list, _ := c["Environment"].([]any)
		for _, v := range list {
			told[get(v, "Name").(string)] = render(get(v, "Value"))
		}
		for _, name := range []string{"GATEWRIGHT_TABLE", "GATEWRIGHT_BUCKET", "GATEWRIGHT_KMS_KEY", "GATEWRIGHT_DEPLOYMENT_URL", "GATEWRIGHT_RELAY", "AWS_REGION"} {
			if told[name] == "" {
				t.Errorf("%s is not told %s", s.Name, name)
			}
		}
		if want := map[string]string{"gateway": ":8081"}[s.Name]; told["GATEWRIGHT_ADMIN_ADDR"] != want {
			t.Errorf("%s is told to have its operators ask at %q, want %q", s.Name, told["GATEWRIGHT_ADMIN_ADDR"], want)
		}
		if _, ok := told[s.Certificate]; ok {
			t.Errorf("%s is told its private key by the template", s.Name)
		}
		secret := get(c, "Secrets", 0)
		if got := render(get(secret, "ValueFrom")); get(secret, "Name") != s.Certificate || !strings.HasSuffix(got, ":parameter/gatewright/dev/"+s.Name+"-certificate") {
			t.Errorf("%s has the certificate of %s in %v", s.Name, got, get(secret, "Name"))
		}
	}
}

// TestWhereAServiceIsIsTold, by the stack itself: outputs of nested stacks are shown to nobody.
func TestWhereAServiceIsIsTold(t *testing.T) {
	outputs := synthesise(t, serving(nil)).stacks["gatewright-dev.template.json"].Outputs
	for output, stack := range map[string]string{"RelayTarget": "Relay", "GatewayProcessTarget": "GatewayProcess"} {
		if got := render(outputs[output].Value); !strings.Contains(got, stack+"NestedStack") || !strings.Contains(got, "Balancer") || !strings.Contains(got, "DNSName") {
			t.Errorf("%s leads to %s", output, got)
		}
	}
}

// TestRelayIsWhereTheContextSays: none without a name for it, and then none of what
// it costs; beside an emulator it is somebody else's.
func TestRelayIsWhereTheContextSays(t *testing.T) {
	for _, tt := range []struct {
		name    string
		context map[string]string
		want    any
	}{
		{"none", needed(nil), nil},
		{"ours", needed(told), "https://relay.example.com"},
		{"an emulator's", needed(besideEmulator), "http://127.0.0.1:9003"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := synthesise(t, tt.context)
			for id, f := range a.all("AWS::Lambda::Function") {
				if got := get(f.Properties, "Environment", "Variables", "GATEWRIGHT_RELAY"); got != tt.want {
					t.Errorf("%s knows the relay %v, want %v", id, got, tt.want)
				}
			}
			deployed := tt.context["relayDomain"] != ""
			for _, stack := range a.stacks {
				for id, r := range stack.Resources {
					if strings.HasPrefix(r.Type, "AWS::EC2::") || strings.HasPrefix(r.Type, "AWS::ECS::") || strings.HasPrefix(r.Type, "AWS::ElasticLoadBalancing") {
						if !deployed {
							t.Errorf("%s (%s) is for a relay that is none", id, r.Type)
						}
						if strings.Contains(r.Type, "NatGateway") || strings.Contains(r.Type, "VPCEndpoint") && r.Properties["VpcEndpointType"] != "Gateway" || strings.Contains(r.Type, "EIP") {
							t.Errorf("%s (%s) costs money while nobody asks: docs/decisions/0040-relays-in-public-subnets.md", id, r.Type)
						}
					}
				}
			}
		})
	}
}
