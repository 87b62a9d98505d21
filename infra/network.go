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

	"github.com/gatewright/gatewright/shared/runtime/service"
	"github.com/gatewright/gatewright/shared/runtime/service/admin"
)

// network is the network of a service's tasks. It is the operator's own network, or a new one with two public subnets
// in two zones (docs/decisions/0040-relays-in-public-subnets.md).
type network struct {
	vpc *string // id of the VPC
	// subnets are the subnets of tasks, and balancerSubnets those of the load balancer.
	subnets, balancerSubnets []*string
	// public says that tasks have public addresses, through which they reach the internet.
	public bool
	// internetRoute is the route through which the subnets reach the internet. Resources that need the internet depend
	// on it. It is nil for the operator's network.
	internetRoute awscdk.CfnResource
	// balancers and tasks are the security groups of the load balancer and of the tasks.
	balancers, tasks awsec2.CfnSecurityGroup
}

// These are the addresses of a new network. It is never connected to another network, so other networks can have the
// same addresses.
var (
	networkCIDR = "10.0.0.0/24"
	subnetCIDRs = []string{"10.0.0.0/26", "10.0.0.64/26"}
)

const (
	anyIPv4   = "0.0.0.0/0"
	httpsPort = 443
	maxPort   = 65535
)

// newNetwork creates the network of a service, or uses the operator's network. Everybody can connect to the public port
// of the load balancer. Only the load balancer can connect to the port on which a task listens, and to the task's admin
// port. If the service has Peers, its tasks can also connect to each other's listening port.
func newNetwork(scope constructs.Construct, name string, s Settings, d data, svc service.Service) network {
	if s.VPC != "" && svc.AlsoFunction {
		return joinNetwork(scope, name, s, svc)
	}
	vpc := awsec2.NewCfnVPC(scope, jsii.String("Network"), &awsec2.CfnVPCProps{
		CidrBlock: &networkCIDR, EnableDnsSupport: jsii.Bool(true), EnableDnsHostnames: jsii.Bool(true), Tags: nameTags(name),
	})
	n := network{vpc: vpc.Ref(), public: true}
	internet := awsec2.NewCfnInternetGateway(scope, jsii.String("Internet"),
		&awsec2.CfnInternetGatewayProps{Tags: nameTags(name)})
	attachment := awsec2.NewCfnVPCGatewayAttachment(scope, jsii.String("InternetAttachment"),
		&awsec2.CfnVPCGatewayAttachmentProps{
			VpcId: n.vpc, InternetGatewayId: internet.Ref(),
		})
	table := awsec2.NewCfnRouteTable(scope, jsii.String("Routes"),
		&awsec2.CfnRouteTableProps{VpcId: n.vpc, Tags: nameTags(name)})
	route := awsec2.NewCfnRoute(scope, jsii.String("RouteToInternet"), &awsec2.CfnRouteProps{
		RouteTableId: table.Ref(), DestinationCidrBlock: jsii.String(anyIPv4), GatewayId: internet.Ref(),
	})
	route.AddDependency(attachment)
	n.internetRoute = route
	for i, cidr := range subnetCIDRs {
		zone := string(rune('A' + i))
		subnet := awsec2.NewCfnSubnet(scope, jsii.String("Subnet"+zone), &awsec2.CfnSubnetProps{
			VpcId: n.vpc, CidrBlock: &cidr, Tags: nameTags(name),
			AvailabilityZone: awscdk.Fn_Select(jsii.Number(i), awscdk.Fn_GetAzs(nil)),
			// Tasks request their public address themselves.
			MapPublicIpOnLaunch: jsii.Bool(false),
		})
		awsec2.NewCfnSubnetRouteTableAssociation(scope, jsii.String("Routes"+zone),
			&awsec2.CfnSubnetRouteTableAssociationProps{
				SubnetId: subnet.Ref(), RouteTableId: table.Ref(),
			})
		n.subnets = append(n.subnets, subnet.Ref())
	}
	n.balancerSubnets = n.subnets
	newEndpoints(scope, name, d, svc, n.vpc, table)
	n.addSecurityGroups(scope, name, s, svc)
	return n
}

// joinNetwork places a service into an existing network. It creates only security groups there: the
// network's owner is responsible for its routes. Tasks in the same subnets as the load balancer,
// which clients reach from everywhere, have public addresses. Tasks in other subnets have none.
func joinNetwork(scope constructs.Construct, name string, s Settings, svc service.Service) network {
	n := network{vpc: &s.VPC, subnets: *jsii.Strings(s.Subnets...), public: len(s.BalancerSubnets) == 0}
	n.balancerSubnets = n.subnets
	if !n.public {
		n.balancerSubnets = *jsii.Strings(s.BalancerSubnets...)
	}
	n.addSecurityGroups(scope, name, s, svc)
	return n
}

// addSecurityGroups creates the security groups. Their rules are separate resources, because the groups refer to each
// other.
func (n *network) addSecurityGroups(scope constructs.Construct, name string, s Settings, svc service.Service) {
	group := func(id, description string) awsec2.CfnSecurityGroup {
		return awsec2.NewCfnSecurityGroup(scope, &id, &awsec2.CfnSecurityGroupProps{
			VpcId: n.vpc, GroupDescription: jsii.String(description), Tags: nameTags(name),
			// Without a rule, EC2 would create one that allows all outgoing traffic.
			SecurityGroupEgress: &[]any{denyAllEgress()},
		})
	}
	n.balancers = group("BalancerGroup", "The load balancer of "+name)
	n.tasks = group("TaskGroup", "The tasks of "+name)
	allowIngress := func(id, description string, to awsec2.CfnSecurityGroup, port int, cidr, from *string) {
		awsec2.NewCfnSecurityGroupIngress(scope, &id, &awsec2.CfnSecurityGroupIngressProps{
			GroupId: to.AttrGroupId(), IpProtocol: jsii.String("tcp"), FromPort: jsii.Number(port), ToPort: jsii.Number(port),
			CidrIp: cidr, SourceSecurityGroupId: from, Description: &description,
		})
	}
	allowEgressRange := func(id, description string, from awsec2.CfnSecurityGroup, first, last int, cidr, to *string) {
		awsec2.NewCfnSecurityGroupEgress(scope, &id, &awsec2.CfnSecurityGroupEgressProps{
			GroupId: from.AttrGroupId(), IpProtocol: jsii.String("tcp"), FromPort: jsii.Number(first), ToPort: jsii.Number(last),
			CidrIp: cidr, DestinationSecurityGroupId: to, Description: &description,
		})
	}
	allowEgress := func(id, description string, from awsec2.CfnSecurityGroup, port int, cidr, to *string) {
		allowEgressRange(id, description, from, port, port, cidr, to)
	}
	allowIngress("BalancerFromEverybody", "clients anywhere", n.balancers, svc.Port.Public, jsii.String(anyIPv4), nil)
	allowEgress("BalancerToTasks", "connections and health checks", n.balancers, svc.Port.Listen, nil,
		n.tasks.AttrGroupId())
	allowIngress("TasksFromBalancer", "connections and health checks", n.tasks, svc.Port.Listen, nil,
		n.balancers.AttrGroupId())
	if svc.Admin.Listen != "" {
		allowEgress("BalancerToAdmin", "health checks", n.balancers, adminPort(svc), nil, n.tasks.AttrGroupId())
		allowIngress("AdminFromBalancer", "health checks", n.tasks, adminPort(svc), nil, n.balancers.AttrGroupId())
	}
	if svc.HasPeers {
		allowIngress("TasksFromTasks", "requests for what another task has", n.tasks, svc.Port.Listen, nil,
			n.tasks.AttrGroupId())
		allowEgress("TasksToTasks", "requests for what another task has", n.tasks, svc.Port.Listen, nil,
			n.tasks.AttrGroupId())
	}
	// This includes private addresses, which the process itself refuses unless privateUpstreams is set.
	if svc.CallsUpstreams {
		allowEgressRange("TasksToUpstreams", "what projects call, AWS and collectors of spans", n.tasks, 1, maxPort,
			jsii.String(anyIPv4), nil)
		return
	}
	allowEgress("TasksToServices", "AWS and collectors of spans", n.tasks, httpsPort, jsii.String(anyIPv4), nil)
	if port := s.collectorPort(); port != 0 && port != httpsPort {
		allowEgress("TasksToCollector", "collectors of spans", n.tasks, port, jsii.String(anyIPv4), nil)
	}
}

// collectorPort returns the port of the collector that receives spans, or 0 if there is no collector.
func (s Settings) collectorPort() int {
	u, err := url.Parse(s.OTLPEndpoint)
	if err != nil || u.Host == "" {
		return 0 // the process reports an invalid address
	}
	if port, err := strconv.Atoi(u.Port()); err == nil {
		return port
	}
	if u.Scheme == "http" {
		return 80
	}
	return httpsPort
}

// denyAllEgress returns a rule that allows no outgoing traffic, except to an address that does not exist.
func denyAllEgress() *awsec2.CfnSecurityGroup_EgressProperty {
	return &awsec2.CfnSecurityGroup_EgressProperty{
		IpProtocol: jsii.String("icmp"), FromPort: jsii.Number(252), ToPort: jsii.Number(86),
		CidrIp: jsii.String("255.255.255.255/32"), Description: jsii.String("nothing but what other rules say"),
	}
}

// nameTags returns the tag Name, which the console of EC2 shows as the name of a resource.
func nameTags(name string) *[]*awscdk.CfnTag {
	return &[]*awscdk.CfnTag{{Key: jsii.String("Name"), Value: &name}}
}

// balancer is the load balancer of a service's tasks.
type balancer struct {
	resource awselasticloadbalancingv2.CfnLoadBalancer
	// targets is the target group of the service's tasks. alternate is a second group, or nil. If there are two groups,
	// ECS directs connections to one of them, and switches to the other in each release.
	targets, alternate awselasticloadbalancingv2.CfnTargetGroup
	listener           awselasticloadbalancingv2.CfnListener
}

// These are the times of the load balancer in seconds, and its thresholds in health checks.
const (
	// With healthCheckInterval, two responses make a task healthy after 20 s, and three failures make it unhealthy
	// after 30 s.
	healthCheckInterval, healthyThreshold, unhealthyThreshold = 10, 2, 3
	// deregistrationDelay is the time between the deregistration of a task and its stop. At first, some new connections
	// still reach the task, until the load balancer has deregistered it everywhere. Existing connections stay open.
	deregistrationDelay = 60
	// idleTimeout is twelve times the tunnel's ping interval (shared/format/tunnel, pingInterval).
	idleTimeout = 360
)

// adminPort returns the port of a service's admin endpoint. The endpoint listens on all addresses of the task, because
// the security group lets only the load balancer connect to it.
func adminPort(svc service.Service) int {
	return int(netip.MustParseAddrPort(svc.Admin.Default).Port())
}

// newBalancer creates a Network Load Balancer that forwards TCP. TLS ends in the tasks (design, section 7), so that the
// load balancer does not change the connections of clients.
//
// A service without Peers sees the addresses of clients, which its limits use. For services with Peers, all connections
// come from the load balancer's address instead, because a task that connects to itself through the load balancer would
// otherwise receive responses from the wrong address.
func newBalancer(scope constructs.Construct, s serviceSpec, n network) balancer {
	var subnets []any
	for _, subnet := range n.balancerSubnets {
		subnets = append(subnets, subnet)
	}
	var b balancer
	b.resource = awselasticloadbalancingv2.NewCfnLoadBalancer(scope, jsii.String("Balancer"),
		&awselasticloadbalancingv2.CfnLoadBalancerProps{
			Type: jsii.String("network"), Scheme: jsii.String("internet-facing"), IpAddressType: jsii.String("ipv4"),
			Subnets: &subnets, SecurityGroups: &[]any{n.balancers.AttrGroupId()},
			LoadBalancerAttributes: &[]any{&awselasticloadbalancingv2.CfnLoadBalancer_LoadBalancerAttributeProperty{
				// With cross-zone load balancing, each address of the load balancer reaches a task while any task is
				// healthy.
				Key: jsii.String("load_balancing.cross_zone.enabled"), Value: jsii.String("true"),
			}},
		})
	if n.internetRoute != nil {
		b.resource.AddDependency(n.internetRoute)
	}
	b.targets = newTargetGroup(scope, "Targets", s.Service, n)
	if s.shiftsTraffic() {
		b.alternate = newTargetGroup(scope, "OtherTargets", s.Service, n)
	}
	// ECS changes the target of the listener. An update that changes any property of the listener resets its target, to a
	// group that may be empty. A test compares the listener with testdata/kept.txt, so that no change of this code changes
	// the listener.
	b.listener = awselasticloadbalancingv2.NewCfnListener(scope, jsii.String("Listener"),
		&awselasticloadbalancingv2.CfnListenerProps{
			LoadBalancerArn: b.resource.Ref(), Protocol: jsii.String("TCP"), Port: jsii.Number(s.Port.Public),
			DefaultActions: &[]any{&awselasticloadbalancingv2.CfnListener_ActionProperty{
				Type: jsii.String("forward"), TargetGroupArn: b.targets.Ref(),
			}},
			ListenerAttributes: &[]any{&awselasticloadbalancingv2.CfnListener_ListenerAttributeProperty{
				Key: jsii.String("tcp.idle_timeout.seconds"), Value: jsii.String(strconv.Itoa(idleTimeout)),
			}},
		})
	if b.alternate != nil {
		// The listener may forward to this group when everything is deleted, and a group with a listener cannot be
		// deleted. With this dependency the listener is deleted first.
		b.listener.AddDependency(b.alternate)
	}
	return b
}

// newTargetGroup creates a target group for a service's tasks.
func newTargetGroup(
	scope constructs.Construct, id string, s service.Service, n network,
) awselasticloadbalancingv2.CfnTargetGroup {
	attribute := func(key, value string) *awselasticloadbalancingv2.CfnTargetGroup_TargetGroupAttributeProperty {
		return &awselasticloadbalancingv2.CfnTargetGroup_TargetGroupAttributeProperty{Key: &key, Value: &value}
	}
	protocol, path, port := "HTTP", s.Health, "traffic-port"
	if s.Port.Protocol == service.TLS {
		protocol = "HTTPS" // the load balancer does not verify the certificate
	}
	if s.Admin.Listen != "" { // the service's port needs a host name, which a health check does not send
		protocol, path, port = "HTTP", admin.ReadyPath, strconv.Itoa(adminPort(s))
	}
	return awselasticloadbalancingv2.NewCfnTargetGroup(scope, &id, &awselasticloadbalancingv2.CfnTargetGroupProps{
		VpcId: n.vpc, TargetType: jsii.String("ip"), Protocol: jsii.String("TCP"), Port: jsii.Number(s.Port.Listen),
		HealthCheckEnabled: jsii.Bool(true), HealthCheckProtocol: &protocol, HealthCheckPath: &path, HealthCheckPort: &port,
		Matcher:                    &awselasticloadbalancingv2.CfnTargetGroup_MatcherProperty{HttpCode: jsii.String("200")},
		HealthCheckIntervalSeconds: jsii.Number(healthCheckInterval),
		HealthCheckTimeoutSeconds:  jsii.Number(healthCheckInterval / 2),
		HealthyThresholdCount:      jsii.Number(healthyThreshold), UnhealthyThresholdCount: jsii.Number(unhealthyThreshold),
		TargetGroupAttributes: &[]any{
			attribute("deregistration_delay.timeout_seconds", strconv.Itoa(deregistrationDelay)),
			attribute("deregistration_delay.connection_termination.enabled", "false"),
			// A draining task reports itself as unhealthy, and still serves its connections. By default, the load
			// balancer would close them.
			attribute("target_health_state.unhealthy.connection_termination.enabled", "false"),
			attribute("target_health_state.unhealthy.draining_interval_seconds", "0"),
			attribute("preserve_client_ip.enabled", strconv.FormatBool(!s.HasPeers)),
			attribute("proxy_protocol_v2.enabled", "false"),
		},
	})
}
