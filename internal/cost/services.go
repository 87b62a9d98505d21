package cost

import "fmt"

// serviceOf is what a service adds to an idle installation, whatever nobody asks of it.
func serviceOf(m measured, name string) []item {
	of := m.services[name]
	hours := of.tasks * hoursPerMonth
	processors, memory := of.cpuUnits/1024, of.memoryMB/1024
	balancers := of.resources["AWS::ElasticLoadBalancingV2::LoadBalancer"]
	// A load balancer has an address in each subnet, a task one of its own.
	numbers := balancers*of.resources["AWS::EC2::Subnet"] + of.tasks
	// Each target that it is held to has two, which Application Auto Scaling makes: one to grow by, one to shrink by.
	metrics, how := of.alarmMetrics, ""
	if own := 2 * of.resources["AWS::ApplicationAutoScaling::ScalingPolicy"]; own > 0 {
		metrics, how = metrics+own, fmt.Sprintf(", %g of them its scaling's", own)
	}
	return []item{
		{
			"tasks", fmt.Sprintf("%g × %g vCPU, %g GB", of.tasks, processors, memory),
			dollars(processorHour, hours*processors) + dollars(memoryHour, hours*memory),
		},
		{"the load balancer", fmt.Sprintf("%g × %d hours", balancers, hoursPerMonth), dollars(networkHour, balancers*hoursPerMonth)},
		{"public IPv4 addresses", fmt.Sprintf("%g: %g of the load balancer, one of each task", numbers, numbers-of.tasks), dollars(addressHour, numbers*hoursPerMonth)},
		{"alarms", fmt.Sprintf("%g metrics × $%g%s", metrics, dollars(alarm, 1), how), dollars(alarm, metrics)},
		{"what tells how long its certificate is valid", fmt.Sprintf("1 metric × $%g", dollars(metricMonth, 1)), dollars(metricMonth, 1)},
	}
}
