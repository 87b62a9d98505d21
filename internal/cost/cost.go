// Package cost computes the cost of a million requests and of a month of an installation, from list prices, measured
// ledgers and assumptions. docs/cost.md states all of them. A test writes the tables into that document and a summary
// into the README, and compares them, so that no sum and no number of capacity units can be outdated.
//
// It is neither a bill nor a forecast: prices change and differ between regions, and discounts, free tiers and taxes are left out.
//
// Read cost.go first, which contains the prices; then inputs.go, requests.go, schedules.go, bills.go, checks.go, containers.go,
// services.go and bedrock.go.
package cost

import "slices"

// price is one line of the price list.
type price struct {
	name    string  // one of the constants below
	text    string  // the description in the document
	dollars float64 // the price of per units
	per     float64
	unit    string
}

// each returns the price of one unit.
func (p price) each() float64 { return p.dollars / p.per }

// The names of the prices.
const (
	restRequest    = "rest"
	restTier2      = "rest-2"
	restTier3      = "rest-3"
	restTier4      = "rest-4"
	lambdaRequest  = "lambda"
	lambdaGBSecond = "lambda-second"
	readUnit       = "read"
	writeUnit      = "write"
	tableStorage   = "table"
	tableBackup    = "backup"
	objectPut      = "put"
	objectGet      = "get"
	objectStorage  = "object"
	kmsKey         = "key"
	kmsRotation    = "rotation"
	kmsRequest     = "kms"
	logIntake      = "log"
	logTier2       = "log-2"
	logTier3       = "log-3"
	alarm          = "alarm"
	dashboard      = "dashboard"
	metricMonth    = "metric"
	trace          = "trace"
	scheduleCall   = "schedule"
	trafficOut     = "traffic"
	processorHour  = "processor"
	memoryHour     = "memory"
	networkHour    = "network-balancer"
	networkUnit    = "network-balancer-unit"
	addressHour    = "address"
	zoneTraffic    = "zone"
	vectorToken    = "vector"
	tokenIn        = "token-in"
	tokenOut       = "token-out"
)

const million = 1e6

// prices returns AWS's prices of us-east-1 in the first tier, without free tiers. For the largest items on a busy gateway's bill, it also
// returns the prices of later tiers.
func prices() []price {
	return []price{
		{restRequest, "API Gateway, REST: requests", 3.50, million, "requests"},
		{restTier2, "the same beyond 333 million of a month", 2.80, million, "requests"},
		{restTier3, "the same beyond 1,000 million", 2.38, million, "requests"},
		{restTier4, "the same beyond 20,000 million", 1.51, million, "requests"},
		{lambdaRequest, "Lambda: requests", 0.20, million, "requests"},
		{lambdaGBSecond, "Lambda, arm64: time", 13.3334, million, "GB-seconds"},
		{readUnit, "DynamoDB on demand: read request units", 0.125, million, "units"},
		{writeUnit, "DynamoDB on demand: write request units", 0.625, million, "units"},
		{tableStorage, "DynamoDB: storage", 0.25, 1, "GB-month"},
		{tableBackup, "DynamoDB: point-in-time recovery", 0.20, 1, "GB-month"},
		{objectPut, "S3 Standard: PUT, LIST", 0.005, 1000, "requests"},
		{objectGet, "S3 Standard: GET", 0.0004, 1000, "requests"},
		{objectStorage, "S3 Standard: storage", 0.023, 1, "GB-month"},
		{kmsKey, "KMS: a key", 1.00, 1, "key-month"},
		{kmsRotation, "KMS: each of the first two rotations of a key", 1.00, 1, "key-month"},
		{kmsRequest, "KMS: requests", 0.03, 10_000, "requests"},
		{logIntake, "CloudWatch Logs: intake", 0.50, 1, "GB"},
		{logTier2, "the same of Lambda's logs beyond 10,000 GB of a month", 0.25, 1, "GB"},
		{logTier3, "the same of Lambda's logs beyond 30,000 GB", 0.10, 1, "GB"},
		{alarm, "CloudWatch: an alarm, for each metric", 0.10, 1, "alarm-month"},
		{dashboard, "CloudWatch: a dashboard", 3.00, 1, "dashboard-month"},
		{metricMonth, "CloudWatch: a metric beyond the basic ones", 0.30, 1, "metric-month"},
		{trace, "X-Ray: traces recorded", 5.00, million, "traces"},
		{scheduleCall, "EventBridge Scheduler: calls", 1.00, million, "calls"},
		{trafficOut, "Traffic to the internet", 0.09, 1, "GB"},
		{processorHour, "Fargate, arm64: processors", 0.03238, 1, "vCPU-hour"},
		{memoryHour, "Fargate, arm64: memory", 0.00356, 1, "GB-hour"},
		{networkHour, "Network Load Balancer", 0.0225, 1, "hour"},
		{networkUnit, "Network Load Balancer: capacity", 0.006, 1, "NLCU-hour"},
		{addressHour, "A public IPv4 address", 0.005, 1, "hour"},
		{zoneTraffic, "Traffic to another zone, 0.01 on each side", 0.02, 1, "GB"},
		{vectorToken, "Bedrock, Titan Text Embeddings V2: tokens", 0.02, million, "tokens"},
		{tokenIn, "Bedrock, Nova Lite: tokens that it reads", 0.06, million, "tokens"},
		{tokenOut, "Bedrock, Nova Lite: tokens that it writes", 0.24, million, "tokens"},
	}
}

// dollars returns the cost of a quantity at the price with a name. It panics if there is no such price, because a table
// without the cost would be wrong.
func dollars(name string, quantity float64) float64 {
	list := prices()
	i := slices.IndexFunc(list, func(p price) bool { return p.name == name })
	if i < 0 {
		panic("cost: there is no price with the name " + name)
	}
	return list[i].each() * quantity
}

// A month, as AWS's examples count it.
const (
	hoursPerMonth   = 730
	secondsPerMonth = hoursPerMonth * 3600
)

// lambdaTime returns the cost of the compute time of calls that each take ms milliseconds with memoryMB of memory.
func lambdaTime(calls, ms, memoryMB float64) float64 {
	return dollars(lambdaGBSecond, calls*ms/1000*memoryMB/1024)
}

// sampled returns the number of traces per second that X-Ray's default rule records if perSecond requests arrive in
// each second: the first request of each second, and a twentieth of the others.
func sampled(perSecond float64) float64 {
	return min(perSecond, 1) + max(0, perSecond-1)/20
}
