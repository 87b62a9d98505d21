package commands

func meteringResource() resource {
	return resource{
		name: "metering", short: "Plans, subscriptions and what is left of their quotas",
		children: []resource{meteringBuckets(), meteringPlans(), meteringSubscriptions(), meteringQuotas()},
	}
}

func meteringBuckets() resource {
	bucket := positional("bucketId", "BUCKET_ID", "mtr_"+exampleID)
	return resource{name: "bucket", short: "Metering buckets", verbs: []verb{
		{
			name: "list", short: "List the metering buckets", operation: "MeteringBucketsService_list",
			columns: columns{"id", "createdOn"},
		},
		{
			name: "get", short: "Show a metering bucket", operation: "MeteringBucketsService_read",
			params: []parameter{bucket},
		},
		{name: "create", short: "Make a metering bucket", operation: "MeteringBucketsService_create"},
		{
			name: "delete", short: "Delete a metering bucket, with its plans and subscriptions",
			operation: "MeteringBucketsService_delete", params: []parameter{bucket},
			deletes: &deletion{
				kind: "metering bucket",
				dependents: []dependent{
					{operation: "MeteringPlansService_list", singular: "plan", plural: "plans"},
					{operation: "MeteringSubscriptionsService_list", singular: "subscription", plural: "subscriptions"},
				},
			},
		},
	}}
}

func meteringPlans() resource {
	plan, meteringBucket := planIDParam(), meteringBucketParam()
	return resource{name: "plan", short: "Plans: how much of each meter a period has", verbs: []verb{
		{
			name: "list", short: "List the plans of a metering bucket", operation: "MeteringPlansService_list",
			params: []parameter{meteringBucket}, columns: columns{"id", "label", "planExternalId", "meters", "hasSubscriptions"},
		},
		{
			name: "get", short: "Show a plan", operation: "MeteringPlansService_read",
			params: []parameter{plan, meteringBucket},
		},
		{
			name: "create", short: "Make a plan", operation: "MeteringPlansService_create",
			params: append([]parameter{meteringBucket}, planParams(true)...), hasBodyFlag: true,
		},
		{
			name: updateVerb, short: "Change a plan", operation: "MeteringPlansService_update",
			params: append([]parameter{plan, meteringBucket}, planParams(false)...), hasBodyFlag: true,
		},
		{
			name: "delete", short: "Delete a plan", operation: "MeteringPlansService_delete",
			params: []parameter{plan, meteringBucket}, deletes: &deletion{kind: "plan"},
		},
	}}
}

func meteringSubscriptions() resource {
	subscription, meteringBucket := subscriptionIDParam(), meteringBucketParam()
	return resource{name: "subscription", short: "Subscriptions of customers to plans", verbs: []verb{
		{
			name: "list", short: "List the subscriptions of a metering bucket", operation: "MeteringSubscriptionsService_list",
			params:  []parameter{meteringBucket},
			columns: columns{"id", "customerKey", "status", "planIds", "nextBillingCycle"},
		},
		{
			name: "get", short: "Show a subscription", operation: "MeteringSubscriptionsService_read",
			params: []parameter{subscription, meteringBucket},
		},
		{
			name: "create", short: "Make a subscription", operation: "MeteringSubscriptionsService_create",
			params: append([]parameter{meteringBucket}, subscriptionParams()...), hasBodyFlag: true,
		},
		{
			name: updateVerb, short: "Change a subscription", operation: "MeteringSubscriptionsService_update",
			hasBodyFlag: true,
			params: []parameter{
				subscription, meteringBucket, metadataParam,
				{argument: "planExternalIds", flag: "plan-external-id", kind: asList, help: "your id of a plan"},
				{
					argument: "prorate", flag: "prorate", kind: asJSON,
					help: "the part of the new quotas that is left of this period, 0 to 1",
				},
				{argument: "status", flag: "status", help: "its status", choices: subscriptionStates(), example: "canceled"},
				{argument: "trialEndDate", flag: "trial-end", kind: asTime, help: "when its trial ends"},
			},
		},
		{
			name: "delete", short: "Delete a subscription", operation: "MeteringSubscriptionsService_delete",
			params: []parameter{subscription, meteringBucket}, deletes: &deletion{kind: "subscription"},
		},
	}}
}

func meteringQuotas() resource {
	subscription, meteringBucket := subscriptionIDParam(), meteringBucketParam()
	return resource{name: "quota", short: "What is left of the quotas of a subscription", verbs: []verb{
		{
			name: "get", short: "Show what is left of each meter", operation: "MeteringQuotasService_get",
			params: []parameter{subscription, meteringBucket, {
				argument: "period", flag: "period", kind: asTime,
				help: "an instant of the period that is meant; the current one without it",
			}},
		},
	}}
}

// meteringBucketParam returns the flag that names a metering bucket.
func meteringBucketParam() parameter {
	return parameter{argument: "bucketId", flag: "bucket", help: "the metering bucket, by its id"}.
		mandatory("mtr_" + exampleID)
}

// planIDParam returns the positional argument that names a plan.
func planIDParam() parameter { return positional("planId", "PLAN_ID", "plan_"+exampleID) }

// subscriptionIDParam returns the positional argument that names a subscription.
func subscriptionIDParam() parameter {
	return positional("subscriptionId", "SUBSCRIPTION_ID", "sbsc_"+exampleID)
}

// planParams returns the flags of a plan. isCreate says that the command creates a plan: then some flags are required.
func planParams(isCreate bool) []parameter {
	return []parameter{
		{argument: "label", flag: "label", help: "what it is called", required: isCreate, example: "Gold"},
		{argument: "planExternalId", flag: "external-id", help: "your id of it", required: isCreate, example: "gold"},
		{
			argument: "meters", flag: "meters", kind: asJSON, help: "how much of each meter a period has", required: isCreate,
			example: `'{"requests":{"max":1000}}'`,
		},
		{argument: "trialDays", flag: "trial-days", kind: asNumber, help: "how many days a trial has"},
		{
			argument: "trialEndStatus", flag: "trial-end-status", help: "what a subscription is after its trial",
			choices: []string{"paused", "canceled"},
		},
		{
			argument: "isTrialCollectPayment", flag: "trial-collect-payment", kind: asBool,
			help: "whether a payment method is asked for in a trial",
		},
	}
}

func subscriptionStates() []string {
	return []string{
		"active", "inactive", "incomplete", "incomplete-expired", "trialing", "past-due", "canceled", "unpaid",
		"paused",
	}
}

// subscriptionParams returns the flags for the creation of a subscription.
func subscriptionParams() []parameter {
	return []parameter{
		parameter{
			argument: "customerKey", flag: "customer",
			help: "the consumer's sub, by which a request is metered",
		}.mandatory("acme"),
		parameter{
			argument: "customerExternalId", flag: "customer-external-id",
			help: "your id of the customer",
		}.mandatory("cus_1"),
		parameter{
			argument: "subscriptionExternalId", flag: "external-id",
			help: "your id of the subscription",
		}.mandatory("sub_1"),
		parameter{argument: "planIds", flag: "plan", kind: asList, help: "a plan, by its id"}.mandatory("plan_" + exampleID),
		parameter{
			argument: "planExternalIds", flag: "plan-external-id", kind: asList,
			help: "your id of a plan",
		}.mandatory("gold"),
		parameter{
			argument: "region", flag: "region", help: "where it is kept",
			choices: []string{"us-central1", "us-east1", "europe-west4"},
		}.mandatory("europe-west4"),
		parameter{
			argument: "renewalStrategy", flag: "renewal", help: "how long a period is",
			choices: []string{"monthly", "yearly"},
		}.mandatory("monthly"),
		{argument: "status", flag: "status", help: "its status", choices: subscriptionStates(), defaultValue: "active"},
		{argument: "type", flag: "type", help: "its type", choices: []string{"periodic"}, defaultValue: "periodic"},
		metadataParam,
		{argument: "productKey", flag: "product", help: "your id of the product"},
		{
			argument: "quotaResetAnchor", flag: "anchor", kind: asTime,
			help: "the instant that periods are counted from; its creation without it",
		},
		{argument: "trialStartDate", flag: "trial-start", kind: asTime, help: "when its trial begins"},
		{argument: "trialEndDate", flag: "trial-end", kind: asTime, help: "when its trial ends"},
		{
			argument: "trialEndStatus", flag: "trial-end-status", help: "what it is after its trial",
			choices: []string{
				"active", "inactive", "incomplete", "incomplete-expired", "past-due", "canceled", "unpaid",
				"paused",
			},
		},
	}
}
