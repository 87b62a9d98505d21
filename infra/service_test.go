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
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/testing/golden"
)

// servicesContext returns a context of an installation with every service.
func servicesContext(overrides map[string]string) map[string]string {
	out := minimalContext(map[string]string{
		"relayDomain": "relay.example.com", "gateway": "both",
		"gatewayConnectionsPerAddress": "500",
	})
	maps.Copy(out, overrides)
	return out
}

// serviceStack returns an assembly with only the stack of a service.
func (a assembly) serviceStack(t *testing.T, s serviceSpec) assembly {
	t.Helper()
	for name, stack := range a.stacks {
		if strings.Contains(name, "gatewrightdev"+s.stackName()) {
			return assembly{stacks: map[string]template{name: stack}}
		}
	}
	t.Fatalf("service %s has no stack, want one", s.Name)
	return assembly{}
}

// containerDefinition returns the only container of a service's tasks.
func (a assembly) containerDefinition(t *testing.T) map[string]any {
	t.Helper()
	all, _ := a.only(t, "AWS::ECS::TaskDefinition").Properties["ContainerDefinitions"].([]any)
	if len(all) != 1 {
		t.Fatalf("a task has %d containers, want one", len(all))
	}
	return all[0].(map[string]any)
}

// TestServiceSummariesMatchGolden compares a summary of each service with a golden file: its settings, its network
// rules, its permissions and its alarms.
func TestServiceSummariesMatchGolden(t *testing.T) {
	a := synthesize(t, servicesContext(nil))
	wantFiles := map[string]bool{}
	for _, s := range serviceSpecs(settingsFor(t, servicesContext(nil))) {
		wantFiles[s.Name+".txt"] = true
		golden.Equal(t, filepath.Join("testdata/services", s.Name+".txt"), a.serviceStack(t, s).describeService(t, s))
	}
	entries, err := os.ReadDir("testdata/services")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !wantFiles[e.Name()] {
			t.Errorf("testdata/services/%s belongs to no service, want it removed", e.Name())
		}
	}
}

// describeService returns the text of a service's golden file. a has only the stack of the service.
func (a assembly) describeService(t *testing.T, s serviceSpec) string {
	t.Helper()
	var out strings.Builder
	task, service := a.only(t, "AWS::ECS::TaskDefinition").Properties, a.only(t, "AWS::ECS::Service").Properties
	tasks := fmt.Sprint(service["DesiredCount"])
	if s.autoscales() {
		target := a.only(t, "AWS::ApplicationAutoScaling::ScalableTarget").Properties
		tasks = fmt.Sprintf("%v to %v", target["MinCapacity"], target["MaxCapacity"])
	}
	fmt.Fprintf(&out, "%sService %s tasks, %v CPU units, %v MB, %s, stopped after %v s\n", logicalID(s.Name), tasks,
		task["Cpu"], task["Memory"],
		get(task, "RuntimePlatform", "CpuArchitecture"), a.containerDefinition(t)["StopTimeout"])

	out.WriteString("\nsecurity group rules\n")
	for _, line := range a.securityGroupRules() {
		fmt.Fprintf(&out, "    %s\n", line)
	}
	out.WriteString("\nenvironment\n")
	for _, kind := range []string{"Environment", "Secrets"} {
		variables, _ := a.containerDefinition(t)[kind].([]any)
		for _, v := range variables {
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
			for _, prefix := range s.keyPrefixes {
				fmt.Fprintf(&out, "        of %s\n", prefix)
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

// alarmMetrics returns the number of metrics in alarms, which determines their price.
func (a assembly) alarmMetrics() (n int) {
	for _, stack := range a.stacks { // a.all would merge alarms with the same logical id in different stacks
		for _, r := range stack.Resources {
			if r.Type != "AWS::CloudWatch::Alarm" {
				continue
			}
			metrics, _ := r.Properties["Metrics"].([]any)
			for _, m := range metrics {
				if get(m, "MetricStat") != nil {
					n++
				}
			}
			if metrics == nil {
				n++
			}
		}
	}
	return n
}

// securityGroupRules returns the rules of security groups, sorted.
func (a assembly) securityGroupRules() (out []string) {
	for resourceType, peer := range map[string]struct{ property, preposition string }{
		"AWS::EC2::SecurityGroupIngress": {"SourceSecurityGroupId", "from"},
		"AWS::EC2::SecurityGroupEgress":  {"DestinationSecurityGroupId", "to"},
	} {
		for _, r := range a.all(resourceType) {
			p := r.Properties
			other := p["CidrIp"]
			if other == nil {
				other = p[peer.property]
			}
			out = append(out, fmt.Sprintf("%s %s %s at %v to %v", render(p["GroupId"]), peer.preposition, render(other),
				p["FromPort"], p["ToPort"]))
		}
	}
	slices.Sort(out)
	return out
}

// TestServiceRolesMatchDeclaredUses compares the actions of each service's role with the service's declared uses. The
// test has its own table of actions, so that it does not depend on the code that creates the roles.
func TestServiceRolesMatchDeclaredUses(t *testing.T) {
	useActions := map[api.Use][]string{
		api.GetItem: {"dynamodb:GetItem"}, api.BatchGetItem: {"dynamodb:BatchGetItem"}, api.Query: {"dynamodb:Query"},
		api.PutItem:    {"dynamodb:PutItem"},
		api.UpdateItem: {"dynamodb:UpdateItem"}, api.DeleteItem: {"dynamodb:DeleteItem"},
		api.CheckItem: {"dynamodb:ConditionCheckItem"},
		api.RootKey:   {"kms:Decrypt", "dynamodb:GetItem"}, api.ReadArtifact: {"s3:GetObject"},
	}
	resourceFor := func(action string) string {
		switch {
		case strings.HasPrefix(action, "kms:"):
			return "${RootKey.Arn}"
		case strings.HasPrefix(action, "s3:"):
			return "arn:${AWS::Partition}:s3:::gatewright-dev-${AWS::AccountId}-${AWS::Region}/artifacts/*"
		}
		return "${Table.Arn}"
	}
	for _, s := range serviceSpecs(settingsFor(t, servicesContext(nil))) {
		want := map[string]bool{}
		for _, use := range s.Uses {
			if useActions[use] == nil {
				t.Errorf("service %s declares %q, want a known use: add its actions to useActions", s.Name, use)
			}
			for _, action := range useActions[use] {
				want[action] = true
			}
		}
		got := map[string]bool{}
		for _, statement := range synthesize(t, servicesContext(nil)).serviceStack(t, s).grants()["${TaskRole}"] {
			for _, action := range statement.actions {
				got[action] = true
				if !slices.Equal(statement.resources, []string{resourceFor(action)}) {
					t.Errorf("%s may %s on %v, want %s", s.Name, action, statement.resources, resourceFor(action))
				}
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s may %v, want %v", s.Name, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
	}
}

// TestSecurityGroupsOpenOnlyServicePorts checks that security groups allow only the ports and the sources that a
// service needs.
func TestSecurityGroupsOpenOnlyServicePorts(t *testing.T) {
	for _, s := range serviceSpecs(settingsFor(t, servicesContext(nil))) {
		a := synthesize(t, servicesContext(nil)).serviceStack(t, s)
		want := []string{
			fmt.Sprintf("${BalancerGroup.GroupId} from 0.0.0.0/0 at %d to %d", s.Port.Public, s.Port.Public),
			fmt.Sprintf("${BalancerGroup.GroupId} to ${TaskGroup.GroupId} at %d to %d", s.Port.Listen, s.Port.Listen),
			fmt.Sprintf("${TaskGroup.GroupId} from ${BalancerGroup.GroupId} at %d to %d", s.Port.Listen, s.Port.Listen),
		}
		switch s.Name {
		case "relay":
			want = append(want,
				fmt.Sprintf("${TaskGroup.GroupId} from ${TaskGroup.GroupId} at %d to %d", s.Port.Listen, s.Port.Listen),
				fmt.Sprintf("${TaskGroup.GroupId} to ${TaskGroup.GroupId} at %d to %d", s.Port.Listen, s.Port.Listen),
				"${TaskGroup.GroupId} to 0.0.0.0/0 at 443 to 443")
		case "gateway": // the health check has a port that clients cannot reach; projects can call any port
			want = append(want,
				"${BalancerGroup.GroupId} to ${TaskGroup.GroupId} at 8081 to 8081",
				"${TaskGroup.GroupId} from ${BalancerGroup.GroupId} at 8081 to 8081",
				"${TaskGroup.GroupId} to 0.0.0.0/0 at 1 to 65535")
		default:
			t.Errorf("service %s has no expected rules, want them in this test", s.Name)
		}
		slices.Sort(want)
		if got := a.securityGroupRules(); !slices.Equal(got, want) {
			t.Errorf("rules of the security groups of %s =\n%s\nwant\n%s", s.Name, strings.Join(got, "\n"),
				strings.Join(want, "\n"))
		}
		for id, group := range a.all("AWS::EC2::SecurityGroup") {
			// If the group itself has no rule, EC2 adds a rule that allows all outgoing traffic.
			ingress, egress := group.Properties["SecurityGroupIngress"],
				get(group.Properties, "SecurityGroupEgress", 0, "CidrIp")
			if ingress != nil || egress != "255.255.255.255/32" {
				t.Errorf("%s of %s: ingress = %v, egress = %v, want no ingress and the egress 255.255.255.255/32", id, s.Name,
					ingress, egress)
			}
		}
		network := get(a.only(t, "AWS::ECS::Service").Properties, "NetworkConfiguration", "AwsvpcConfiguration")
		if groups := texts(get(network, "SecurityGroups")); !slices.Equal(groups, []string{"${TaskGroup.GroupId}"}) {
			t.Errorf("security groups of the tasks of %s = %v, want only TaskGroup", s.Name, groups)
		}
		if groups := texts(
			a.only(t, "AWS::ElasticLoadBalancingV2::LoadBalancer").Properties["SecurityGroups"]); !slices.Equal(groups,
			[]string{"${BalancerGroup.GroupId}"}) {
			t.Errorf("security groups of the load balancer of %s = %v, want only BalancerGroup", s.Name, groups)
		}
	}
}

// TestEndpointPoliciesMatchDeclaredAccess checks the policies of VPC endpoints. The relay calls no upstreams. Its
// endpoints allow only requests for the installation's table, with the actions and key prefixes of the relay's role,
// and for the layers of its image. The gateway's endpoints allow all requests, because projects can call any bucket or
// table.
func TestEndpointPoliciesMatchDeclaredAccess(t *testing.T) {
	for _, s := range serviceSpecs(settingsFor(t, servicesContext(nil))) {
		a := synthesize(t, servicesContext(nil)).serviceStack(t, s)
		got := map[string][]string{}
		for id, e := range a.all("AWS::EC2::VPCEndpoint") {
			p := e.Properties
			if p["VpcEndpointType"] != "Gateway" || len(texts(p["RouteTableIds"])) != 1 || render(p["VpcId"]) != "${Network}" {
				t.Errorf("endpoint %s of %s = %v, want a Gateway with one route table in the service's network", id, s.Name, p)
			}
			name := strings.TrimPrefix(render(p["ServiceName"]), "com.amazonaws.${AWS::Region}.")
			statements, _ := get(p, "PolicyDocument", "Statement").([]any)
			for _, stmt := range statements {
				// The role's statement with the same actions must have the same key prefixes.
				for _, granted := range a.grants()["${TaskRole}"] {
					if slices.Equal(granted.actions, texts(get(stmt, "Action"))) &&
						!slices.Equal(granted.keyPrefixes, keyPrefixesOf(stmt)) {
						t.Errorf("endpoint %s of %s allows %v with the key prefixes %v, want %v, as the role", id, s.Name,
							granted.actions, keyPrefixesOf(stmt), granted.keyPrefixes)
					}
				}
				for _, action := range texts(get(stmt, "Action")) {
					for _, arn := range texts(get(stmt, "Resource")) {
						got[name] = append(got[name], fmt.Sprintf("%v %s on %s for account %s", get(stmt, "Effect"), action, arn,
							render(get(stmt, "Condition", "StringEquals", "aws:PrincipalAccount"))))
					}
				}
			}
			slices.Sort(got[name])
		}
		const anyAccount = " for account null" // the statement has no condition
		const tableSuffix = " on ${Table.Arn} for account ${AWS::AccountId}"
		want := map[string]map[string][]string{
			"relay": {
				"dynamodb": {
					"Allow dynamodb:GetItem" + tableSuffix, "Allow dynamodb:PutItem" + tableSuffix,
					"Allow dynamodb:Query" + tableSuffix,
				},
				"s3": {
					"Allow s3:GetObject on arn:${AWS::Partition}:s3:::prod-${AWS::Region}-starport-layer-bucket/*" + anyAccount,
				},
			},
			"gateway": {"dynamodb": {"Allow * on *" + anyAccount}, "s3": {"Allow * on *" + anyAccount}},
		}[s.Name]
		if !maps.EqualFunc(got, want, slices.Equal) {
			t.Errorf("policies of the endpoints of %s = %q, want %q", s.Name, got, want)
		}
	}
}

// TestServicesMayReachTheCollectorPort checks that the relay's security groups allow outgoing traffic to the
// collector's port. A collector at port 443 needs no additional rule, because tasks can always connect to port 443.
func TestServicesMayReachTheCollectorPort(t *testing.T) {
	for collector, want := range map[string]string{
		"https://collector.example.com:4318": "at 4318 to 4318", "http://collector.example.com": "at 80 to 80",
		"https://collector.example.com": "",
	} {
		a := synthesizeFew(t,
			minimalContext(map[string]string{"relayDomain": "relay.example.com", "otlpEndpoint": collector}))
		got := ""
		for _, r := range a.securityGroupRules() {
			if ports, ok := strings.CutPrefix(r, "${TaskGroup.GroupId} to 0.0.0.0/0 "); ok && !strings.Contains(ports, "443") {
				got = ports
			}
		}
		if got != want {
			t.Errorf("otlpEndpoint=%s: allowed outgoing ports = %q, want %q", collector, got, want)
		}
	}
}

// TestBalancerAndServiceSettings checks the settings of load balancers and ECS services. Neither may close connections
// while a task drains. By default, the load balancer closes the connections of an unhealthy target.
func TestBalancerAndServiceSettings(t *testing.T) {
	for _, s := range serviceSpecs(settingsFor(t, servicesContext(nil))) {
		a := synthesize(t, servicesContext(nil)).serviceStack(t, s)
		if timeout, _ := a.containerDefinition(t)["StopTimeout"].(float64); timeout <= (s.Announce+s.Drain).Seconds() ||
			timeout > 120 {
			t.Errorf("StopTimeout of %s = %v s, want more than %s and at most 120, the limit of Fargate", s.Name, timeout,
				s.Announce+s.Drain)
		}
		groups := a.all("AWS::ElasticLoadBalancingV2::TargetGroup")
		if want := map[string]int{"relay": 1, "gateway": 2}[s.Name]; len(groups) != want {
			t.Errorf("%s has %d target groups, want %d", s.Name, len(groups), want)
		}
		for _, group := range groups {
			targets := group.Properties
			attributes := map[string]any{}
			attributeList, _ := targets["TargetGroupAttributes"].([]any)
			for _, attribute := range attributeList {
				attributes[get(attribute, "Key").(string)] = get(attribute, "Value")
			}
			for _, name := range []string{
				"deregistration_delay.connection_termination.enabled",
				"target_health_state.unhealthy.connection_termination.enabled",
			} {
				if attributes[name] != "false" {
					t.Errorf("target group of %s: %s = %v, want false", s.Name, name, attributes[name])
				}
			}
			healthCheck := []any{targets["HealthCheckProtocol"], targets["HealthCheckPort"], targets["HealthCheckPath"]}
			if want := map[string][]any{
				"relay":   {"HTTPS", "traffic-port", "/health"},
				"gateway": {"HTTP", "8081", "/readyz"},
			}[s.Name]; !slices.Equal(healthCheck, want) {
				t.Errorf("health check of %s = %v, want %v", s.Name, healthCheck, want)
			}
			if targets["Protocol"] != "TCP" || targets["TargetType"] != "ip" {
				t.Errorf("target group of %s: protocol = %v, target type = %v, want TCP and ip", s.Name, targets["Protocol"],
					targets["TargetType"])
			}
			// For services with Peers, the load balancer hides the clients' addresses, because a task that connects to
			// itself through the load balancer would receive responses from the wrong address.
			if want := map[string]any{
				"relay":   "false",
				"gateway": "true",
			}[s.Name]; attributes["preserve_client_ip.enabled"] != want {
				t.Errorf("preserve_client_ip.enabled of %s = %v, want %v", s.Name, attributes["preserve_client_ip.enabled"], want)
			}
		}
		listener := a.only(t, "AWS::ElasticLoadBalancingV2::Listener").Properties
		if listener["Protocol"] != "TCP" || listener["Port"] != float64(s.Port.Public) || listener["Certificates"] != nil {
			t.Errorf("listener of %s = %v, want TCP at %d without certificates, so that TLS ends in the tasks", s.Name, listener,
				s.Port.Public)
		}
		service := a.only(t, "AWS::ECS::Service").Properties
		if d := service["DeploymentConfiguration"]; get(d, "MinimumHealthyPercent") != 100.0 ||
			get(d, "MaximumPercent") != 200.0 {
			t.Errorf("deployment configuration of %s = %v, want 100 to 200 percent of the tasks", s.Name, d)
		}
		if want := map[string]any{"relay": 2.0, "gateway": nil}[s.Name]; service["DesiredCount"] != want {
			t.Errorf("DesiredCount of %s = %v, want %v", s.Name, service["DesiredCount"], want)
		}
		zones := map[string]bool{}
		for _, subnet := range a.all("AWS::EC2::Subnet") {
			zones[render(subnet.Properties["AvailabilityZone"])] = true
		}
		if len(zones) < 2 {
			t.Errorf("%s has %d availability zones, want at least 2", s.Name, len(zones))
		}
	}
}

// TestTasksRunOurBinaryWithTheInstallationSettings checks the image, the environment and the first secret of each task,
// and that its container has a read-only root file system, no privileges and no capabilities.
func TestTasksRunOurBinaryWithTheInstallationSettings(t *testing.T) {
	settings := settingsFor(t, servicesContext(nil))
	for _, s := range serviceSpecs(settings) {
		c := synthesize(t, servicesContext(nil)).serviceStack(t, s).containerDefinition(t)
		img, err := image.FromBinary(settings.containerBinary(s.Name), "arm64")
		if err != nil {
			t.Fatal(err)
		}
		digest, err := img.Digest()
		if err != nil {
			t.Fatal(err)
		}
		if name := render(c["Image"]); !strings.HasSuffix(name,
			"/cdk-hnb659fds-container-assets-${AWS::AccountId}-${AWS::Region}@"+digest.String()) {
			t.Errorf("image of %s = %s, want the bootstrap repository with %s", s.Name, name, digest)
		}
		if c["ReadonlyRootFilesystem"] != true || c["Privileged"] != false ||
			!slices.Equal(texts(get(c, "LinuxParameters", "Capabilities", "Drop")), []string{"ALL"}) {
			t.Errorf("container of %s = %v, want a read-only root, no privileges and no capabilities", s.Name, c)
		}
		environment := map[string]string{}
		variables, _ := c["Environment"].([]any)
		for _, v := range variables {
			environment[get(v, "Name").(string)] = render(get(v, "Value"))
		}
		for _, name := range []string{
			"GATEWRIGHT_TABLE", "GATEWRIGHT_BUCKET", "GATEWRIGHT_KMS_KEY",
			"GATEWRIGHT_DEPLOYMENT_URL", "GATEWRIGHT_RELAY", "AWS_REGION",
		} {
			if environment[name] == "" {
				t.Errorf("environment of %s has no %s, want it", s.Name, name)
			}
		}
		if want := map[string]string{"gateway": ":8081"}[s.Name]; environment["GATEWRIGHT_ADMIN_ADDR"] != want {
			t.Errorf("GATEWRIGHT_ADMIN_ADDR of %s = %q, want %q", s.Name, environment["GATEWRIGHT_ADMIN_ADDR"], want)
		}
		if _, ok := environment[s.Certificate]; ok {
			t.Errorf("environment of %s has the private key %s, want it as a secret only", s.Name, s.Certificate)
		}
		secret := get(c, "Secrets", 0)
		if got := render(get(secret, "ValueFrom")); get(secret, "Name") != s.Certificate ||
			!strings.HasSuffix(got, ":parameter/gatewright/dev/"+s.Name+"-certificate") {
			t.Errorf("first secret of %s = %v from %s, want %s from the parameter of its certificate", s.Name,
				get(secret, "Name"), got, s.Certificate)
		}
	}
}

// TestStackHasOutputForEachLoadBalancer checks that the installation's own stack has an output with the DNS name of
// each service's load balancer. The CDK does not show outputs of nested stacks.
func TestStackHasOutputForEachLoadBalancer(t *testing.T) {
	outputs := synthesize(t, servicesContext(nil)).stacks["gatewright-dev.template.json"].Outputs
	for output, stack := range map[string]string{"RelayTarget": "Relay", "GatewayProcessTarget": "GatewayProcess"} {
		if got := render(outputs[output].Value); !strings.Contains(got, stack+"NestedStack") ||
			!strings.Contains(got, "Balancer") || !strings.Contains(got, "DNSName") {
			t.Errorf("output %s = %s, want the DNS name of the load balancer in %s", output, got, stack)
		}
	}
}

// TestRelayFollowsTheSettings checks that an installation without relayDomain has no relay and no resources for one. A
// relay has no network resource that costs money without traffic. The relay of an emulator runs elsewhere.
func TestRelayFollowsTheSettings(t *testing.T) {
	for _, tt := range []struct {
		name    string
		context map[string]string
		want    any
	}{
		{"no relay", minimalContext(nil), nil},
		{"relay domain", minimalContext(functionContext), "https://relay.example.com"},
		{"emulator", minimalContext(emulatorContext), "http://127.0.0.1:9003"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := synthesize(t, tt.context)
			for id, f := range a.all("AWS::Lambda::Function") {
				if got := get(f.Properties, "Environment", "Variables", "GATEWRIGHT_RELAY"); got != tt.want {
					t.Errorf("GATEWRIGHT_RELAY of %s = %v, want %v", id, got, tt.want)
				}
			}
			deployed := tt.context["relayDomain"] != ""
			for _, stack := range a.stacks {
				for id, r := range stack.Resources {
					if strings.HasPrefix(r.Type, "AWS::EC2::") || strings.HasPrefix(r.Type, "AWS::ECS::") ||
						strings.HasPrefix(r.Type, "AWS::ElasticLoadBalancing") {
						if !deployed {
							t.Errorf("%s (%s) exists without a relay, want none", id, r.Type)
						}
						if strings.Contains(r.Type, "NatGateway") || strings.Contains(r.Type, "VPCEndpoint") &&
							r.Properties["VpcEndpointType"] != "Gateway" || strings.Contains(r.Type, "EIP") {
							t.Errorf("%s (%s) costs money without traffic, want none: docs/decisions/0040-relays-in-public-subnets.md", id,
								r.Type)
						}
					}
				}
			}
		})
	}
}
