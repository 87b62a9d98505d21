package cost

import "fmt"

// serviceItems returns the items that a service adds to the monthly bill of an idle installation.
func serviceItems(m measured, name string) []item {
	service := m.services[name]
	hours := service.tasks * hoursPerMonth
	processors, memory := service.cpuUnits/1024, service.memoryMB/1024
	balancers := service.resources["AWS::ElasticLoadBalancingV2::LoadBalancer"]
	// A load balancer has an address in each subnet, and a task has one address.
	addresses := balancers*service.resources["AWS::EC2::Subnet"] + service.tasks
	// Application Auto Scaling creates two alarms for each scaling policy: one to add tasks and one to remove them.
	metrics, details := service.alarmMetrics, ""
	if scalingAlarms := 2 * service.resources["AWS::ApplicationAutoScaling::ScalingPolicy"]; scalingAlarms > 0 {
		metrics, details = metrics+scalingAlarms, fmt.Sprintf(", %g of them its scaling's", scalingAlarms)
	}
	return []item{
		{
			"tasks", fmt.Sprintf("%g × %g vCPU, %g GB", service.tasks, processors, memory),
			dollars(processorHour, hours*processors) + dollars(memoryHour, hours*memory),
		},
		{
			"the load balancer", fmt.Sprintf("%g × %d hours", balancers, hoursPerMonth),
			dollars(networkHour, balancers*hoursPerMonth),
		},
		{"public IPv4 addresses", fmt.Sprintf("%g: %g of the load balancer, one of each task", addresses,
			addresses-service.tasks), dollars(addressHour, addresses*hoursPerMonth)},
		{"alarms", fmt.Sprintf("%g metrics × $%g%s", metrics, dollars(alarm, 1), details), dollars(alarm, metrics)},
		{
			"what tells how long its certificate is valid", fmt.Sprintf("1 metric × $%g", dollars(metricMonth, 1)),
			dollars(metricMonth, 1),
		},
	}
}
