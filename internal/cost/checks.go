package cost

import "fmt"

// checkItems returns the items that the synthetic check adds to a monthly bill: its own stack, and the requests that it
// sends to the installation.
func checkItems(m measured, kinds []requestKind) []item {
	calls := m.checkCalls
	// Each call of the check sends one management request, which is priced like the first kind that reads, and one
	// gateway request to a host that does not exist.
	gateway, management := kinds[0], kinds[gatewayKinds]
	alarms, keys := m.check["AWS::CloudWatch::Alarm"], m.check["AWS::KMS::Key"]
	return []item{
		{"alarms", fmt.Sprintf("%g × $%g", alarms, dollars(alarm, 1)), dollars(alarm, alarms)},
		{"metrics", fmt.Sprintf("%d × $%g", checkMetrics, dollars(metricMonth, 1)), dollars(metricMonth, checkMetrics)},
		{
			"the KMS key of the topic for `alarmEmail`", fmt.Sprintf("%g × $%g", keys, dollars(kmsKey, 1)),
			dollars(kmsKey, keys),
		},
		{
			"the function, each minute", fmt.Sprintf("%s calls of %d ms with %g MB", quantity(calls), checkMS,
				m.memoryMB[checkFunction]),
			dollars(scheduleCall, calls) + dollars(lambdaRequest, calls) + lambdaTime(calls, checkMS,
				m.memoryMB[checkFunction]) + dollars(logIntake, calls*checkLog/1e9),
		},
		{"its requests to the management API", fmt.Sprintf("%s at $%s a million", quantity(calls),
			formatDollars(management.perMillion())), management.perMillion() * calls / million},
		{"its requests to the gateway", fmt.Sprintf("%s at $%s a million", quantity(calls),
			formatDollars(gateway.perMillion())), gateway.perMillion() * calls / million},
	}
}
