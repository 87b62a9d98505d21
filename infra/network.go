package main

import (
	"net/netip"
	"net/url"
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awselasticloadbalancingv2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/shared/service"
	"github.com/gatewright/gatewright/shared/service/admin"
)

// network is where a service's tasks run: two public subnets in two zones, and
// nothing else. Why public: docs/decisions/0040-relays-in-public-subnets.md. Or it is the operator's own.
type network struct {
	vpc *string // its id
	// subnets are those of tasks, and fronts those of the load balancer.
	subnets, fronts []*string
	// public says that tasks have addresses of their own as their way out.
	public bool
	// gate is there once the subnets reach the internet, nil for a network that was there before.
	gate awscdk.CfnResource
	// balancers and tasks are the security groups of the two.
	balancers, tasks awsec2.CfnSecurityGroup
}

// Addresses of a network of ours. No other network is ever joined to it, so that they may
// be anybody's else too.
var (
	addresses       = "10.0.0.0/24"
	subnetAddresses = []string{"10.0.0.0/26", "10.0.0.64/26"}
)

const (
	everywhere = "0.0.0.0/0"
	https      = 443
	mostPort   = 65535
)

// newNetwork makes the network of a service, in which nothing but its port is open:
// to everybody at the load balancer, to the load balancer and other tasks at a task.
func newNetwork(scope constructs.Construct, name string, s Settings, d data, of service.Service) network {
	if s.VPC != "" && of.Beside {
		return joinNetwork(scope, name, s, of)
	}
	vpc := awsec2.NewCfnVPC(scope, jsii.String("Network"), &awsec2.CfnVPCProps{
		CidrBlock: &addresses, EnableDnsSupport: jsii.Bool(true), EnableDnsHostnames: jsii.Bool(true), Tags: named(name),
	})
	n := network{vpc: vpc.Ref(), public: true}
	internet := awsec2.NewCfnInternetGateway(scope, jsii.String("Internet"), &awsec2.CfnInternetGatewayProps{Tags: named(name)})
	attached := awsec2.NewCfnVPCGatewayAttachment(scope, jsii.String("InternetAttachment"), &awsec2.CfnVPCGatewayAttachmentProps{
		VpcId: n.vpc, InternetGatewayId: internet.Ref(),
	})
	table := awsec2.NewCfnRouteTable(scope, jsii.String("Routes"), &awsec2.CfnRouteTableProps{VpcId: n.vpc, Tags: named(name)})
	route := awsec2.NewCfnRoute(scope, jsii.String("RouteToInternet"), &awsec2.CfnRouteProps{
		RouteTableId: table.Ref(), DestinationCidrBlock: jsii.String(everywhere), GatewayId: internet.Ref(),
	})
	route.AddDependency(attached)
	n.gate = route
	for i, cidr := range subnetAddresses {
		zone := string(rune('A' + i))
		subnet := awsec2.NewCfnSubnet(scope, jsii.String("Subnet"+zone), &awsec2.CfnSubnetProps{
			VpcId: n.vpc, CidrBlock: &cidr, Tags: named(name),
			AvailabilityZone: awscdk.Fn_Select(jsii.Number(i), awscdk.Fn_GetAzs(nil)),
			// Whoever needs an address asks for one: the tasks do.
			MapPublicIpOnLaunch: jsii.Bool(false),
		})
		awsec2.NewCfnSubnetRouteTableAssociation(scope, jsii.String("Routes"+zone), &awsec2.CfnSubnetRouteTableAssociationProps{
			SubnetId: subnet.Ref(), RouteTableId: table.Ref(),
		})
		n.subnets = append(n.subnets, subnet.Ref())
	}
	n.fronts = n.subnets
	newEndpoints(scope, name, d, of, n.vpc, table)
	n.open(scope, name, s, of)
	return n
}

// joinNetwork puts a service into a network that is there, in which nothing is made but its security groups: routes, and ways out, are their
// owner's. Tasks in the same subnets as the load balancer, which clients reach from everywhere, have addresses of their own; those in others have none.
func joinNetwork(scope constructs.Construct, name string, s Settings, of service.Service) network {
	n := network{vpc: &s.VPC, subnets: *jsii.Strings(s.Subnets...), public: len(s.BalancerSubnets) == 0}
	n.fronts = n.subnets
	if !n.public {
		n.fronts = *jsii.Strings(s.BalancerSubnets...)
	}
	n.open(scope, name, s, of)
	return n
}

// open makes the security groups. Their rules are resources of their own, since
// the groups name each other.
func (n *network) open(scope constructs.Construct, name string, s Settings, of service.Service) {
	group := func(id, what string) awsec2.CfnSecurityGroup {
		return awsec2.NewCfnSecurityGroup(scope, &id, &awsec2.CfnSecurityGroupProps{
			VpcId: n.vpc, GroupDescription: jsii.String(what), Tags: named(name),
			// Without one the service writes a rule that lets everything out.
			SecurityGroupEgress: &[]any{nothing()},
		})
	}
	n.balancers = group("BalancerGroup", "The load balancer of "+name)
	n.tasks = group("TaskGroup", "The tasks of "+name)
	port := of.Port
	in := func(id, why string, to awsec2.CfnSecurityGroup, port int, cidr, from *string) {
		awsec2.NewCfnSecurityGroupIngress(scope, &id, &awsec2.CfnSecurityGroupIngressProps{
			GroupId: to.AttrGroupId(), IpProtocol: jsii.String("tcp"), FromPort: jsii.Number(port), ToPort: jsii.Number(port),
			CidrIp: cidr, SourceSecurityGroupId: from, Description: &why,
		})
	}
	outTo := func(id, why string, from awsec2.CfnSecurityGroup, first, last int, cidr, to *string) {
		awsec2.NewCfnSecurityGroupEgress(scope, &id, &awsec2.CfnSecurityGroupEgressProps{
			GroupId: from.AttrGroupId(), IpProtocol: jsii.String("tcp"), FromPort: jsii.Number(first), ToPort: jsii.Number(last),
			CidrIp: cidr, DestinationSecurityGroupId: to, Description: &why,
		})
	}
	out := func(id, why string, from awsec2.CfnSecurityGroup, port int, cidr, to *string) {
		outTo(id, why, from, port, port, cidr, to)
	}
	in("BalancerFromEverybody", "clients anywhere", n.balancers, port.Public, jsii.String(everywhere), nil)
	out("BalancerToTasks", "connections and health checks", n.balancers, port.Listens, nil, n.tasks.AttrGroupId())
	in("TasksFromBalancer", "connections and health checks", n.tasks, port.Listens, nil, n.balancers.AttrGroupId())
	if of.Admin.Listen != "" {
		out("BalancerToAdmin", "health checks", n.balancers, adminPort(of), nil, n.tasks.AttrGroupId())
		in("AdminFromBalancer", "health checks", n.tasks, adminPort(of), nil, n.balancers.AttrGroupId())
	}
	if of.Peers {
		in("TasksFromTasks", "requests for what another task has", n.tasks, port.Listens, nil, n.tasks.AttrGroupId())
		out("TasksToTasks", "requests for what another task has", n.tasks, port.Listens, nil, n.tasks.AttrGroupId())
	}
	if of.Upstreams { // private addresses too, which the process itself refuses unless privateUpstreams is set
		outTo("TasksToUpstreams", "what projects call, AWS and collectors of spans", n.tasks, 1, mostPort, jsii.String(everywhere), nil)
		return
	}
	out("TasksToServices", "AWS and collectors of spans", n.tasks, https, jsii.String(everywhere), nil)
	if port := s.collectorPort(); port != 0 && port != https {
		out("TasksToCollector", "collectors of spans", n.tasks, port, jsii.String(everywhere), nil)
	}
}

// collectorPort is the port of the collector that spans are sent to, 0 for none.
func (s Settings) collectorPort() int {
	u, err := url.Parse(s.OTLPEndpoint)
	if err != nil || u.Host == "" {
		return 0 // what the address should be, the process says
	}
	if port, err := strconv.Atoi(u.Port()); err == nil {
		return port
	}
	if u.Scheme == "http" {
		return 80
	}
	return https
}

// nothing is a rule that lets out nothing: to no address but that of the machine itself.
func nothing() *awsec2.CfnSecurityGroup_EgressProperty {
	return &awsec2.CfnSecurityGroup_EgressProperty{
		IpProtocol: jsii.String("icmp"), FromPort: jsii.Number(252), ToPort: jsii.Number(86),
		CidrIp: jsii.String("255.255.255.255/32"), Description: jsii.String("nothing but what other rules say"),
	}
}

func named(name string) *[]*awscdk.CfnTag {
	return &[]*awscdk.CfnTag{{Key: jsii.String("Name"), Value: &name}}
}

// balancer is what is before a service's tasks.
type balancer struct {
	resource awselasticloadbalancingv2.CfnLoadBalancer
	// targets are its tasks, or those of before where others, nil for a service that does without, are those
	// that ECS leads connections to: after each release they change places.
	targets, others awselasticloadbalancingv2.CfnTargetGroup
	listener        awselasticloadbalancingv2.CfnListener
}

// Times of the load balancer, in seconds.
const (
	// healthEvery and two answers make a task healthy in 20 s, unhealthy in 30.
	healthEvery, healthyAfter, unhealthyAfter = 10, 2, 3
	// leavingFirst is how long a task is known to leave before it is told to. New
	// connections still reach it meanwhile, for as long as the load balancer takes to spread
	// the word; those that are there stay.
	leavingFirst = 60
	// idleAfter is twelve of the tunnel's pings (shared/tunnel, pingEvery).
	idleAfter = 360
)

// adminPort is where a service's operators ask, of all its addresses: its security group lets in
// the load balancer alone.
func adminPort(of service.Service) int {
	return int(netip.MustParseAddrPort(of.Admin.Default).Port())
}

// newBalancer makes a Network Load Balancer that passes TCP on. TLS ends in the tasks
// (design, section 7), so that connections stay as clients made them.
//
// A service that copies of itself do not reach sees its clients' own addresses: limits and
// audit are by these. Where they do, a task that asked for itself by the load balancer would
// get its answers from nowhere, so these come from the load balancer's address.
func newBalancer(scope constructs.Construct, s deployment, n network) balancer {
	var subnets []any
	for _, subnet := range n.fronts {
		subnets = append(subnets, subnet)
	}
	var b balancer
	b.resource = awselasticloadbalancingv2.NewCfnLoadBalancer(scope, jsii.String("Balancer"), &awselasticloadbalancingv2.CfnLoadBalancerProps{
		Type: jsii.String("network"), Scheme: jsii.String("internet-facing"), IpAddressType: jsii.String("ipv4"),
		Subnets: &subnets, SecurityGroups: &[]any{n.balancers.AttrGroupId()},
		LoadBalancerAttributes: &[]any{&awselasticloadbalancingv2.CfnLoadBalancer_LoadBalancerAttributeProperty{
			// Each of its addresses leads to a task for as long as there is one.
			Key: jsii.String("load_balancing.cross_zone.enabled"), Value: jsii.String("true"),
		}},
	})
	if n.gate != nil {
		b.resource.AddDependency(n.gate)
	}
	b.targets = newTargets(scope, "Targets", s.Service, n)
	if s.shifts() {
		b.others = newTargets(scope, "OtherTargets", s.Service, n)
	}
	// ECS changes where it leads to. An update that changes anything of the listener sets that back, to a group
	// that may be empty: testdata/kept.txt holds it as it is.
	b.listener = awselasticloadbalancingv2.NewCfnListener(scope, jsii.String("Listener"), &awselasticloadbalancingv2.CfnListenerProps{
		LoadBalancerArn: b.resource.Ref(), Protocol: jsii.String("TCP"), Port: jsii.Number(s.Port.Public),
		DefaultActions: &[]any{&awselasticloadbalancingv2.CfnListener_ActionProperty{
			Type: jsii.String("forward"), TargetGroupArn: b.targets.Ref(),
		}},
		ListenerAttributes: &[]any{&awselasticloadbalancingv2.CfnListener_ListenerAttributeProperty{
			Key: jsii.String("tcp.idle_timeout.seconds"), Value: jsii.String(strconv.Itoa(idleAfter)),
		}},
	})
	if b.others != nil {
		// It may lead to these when all of it is removed, and a group that a listener leads to is not: the listener goes first.
		b.listener.AddDependency(b.others)
	}
	return b
}

// newTargets makes a group of a service's tasks.
func newTargets(scope constructs.Construct, id string, s service.Service, n network) awselasticloadbalancingv2.CfnTargetGroup {
	attribute := func(key, value string) *awselasticloadbalancingv2.CfnTargetGroup_TargetGroupAttributeProperty {
		return &awselasticloadbalancingv2.CfnTargetGroup_TargetGroupAttributeProperty{Key: &key, Value: &value}
	}
	health, path, port := "HTTP", s.Health, "traffic-port"
	if s.Port.Protocol == service.TLS {
		health = "HTTPS" // whose certificate it does not look at
	}
	if s.Admin.Listen != "" { // by names alone is anything served at the other port, and a health check has none
		health, path, port = "HTTP", admin.Ready, strconv.Itoa(adminPort(s))
	}
	return awselasticloadbalancingv2.NewCfnTargetGroup(scope, &id, &awselasticloadbalancingv2.CfnTargetGroupProps{
		VpcId: n.vpc, TargetType: jsii.String("ip"), Protocol: jsii.String("TCP"), Port: jsii.Number(s.Port.Listens),
		HealthCheckEnabled: jsii.Bool(true), HealthCheckProtocol: &health, HealthCheckPath: &path, HealthCheckPort: &port,
		Matcher:                    &awselasticloadbalancingv2.CfnTargetGroup_MatcherProperty{HttpCode: jsii.String("200")},
		HealthCheckIntervalSeconds: jsii.Number(healthEvery), HealthCheckTimeoutSeconds: jsii.Number(healthEvery / 2),
		HealthyThresholdCount: jsii.Number(healthyAfter), UnhealthyThresholdCount: jsii.Number(unhealthyAfter),
		TargetGroupAttributes: &[]any{
			attribute("deregistration_delay.timeout_seconds", strconv.Itoa(leavingFirst)),
			attribute("deregistration_delay.connection_termination.enabled", "false"),
			// A task that drains calls itself unhealthy, and its connections are what it
			// drains: by default they would be cut.
			attribute("target_health_state.unhealthy.connection_termination.enabled", "false"),
			attribute("target_health_state.unhealthy.draining_interval_seconds", "0"),
			attribute("preserve_client_ip.enabled", strconv.FormatBool(!s.Peers)),
			attribute("proxy_protocol_v2.enabled", "false"),
		},
	})
}
