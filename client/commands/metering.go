package commands

func meteringNoun() noun {
	inMeters := given{argument: "bucketId", flag: "bucket", text: "the metering bucket, by its id"}.must("mtr_" + anID)
	bucket := word("bucketId", "BUCKET_ID", "mtr_"+anID)
	plan := word("planId", "PLAN_ID", "plan_"+anID)
	subscription := word("subscriptionId", "SUBSCRIPTION_ID", "sbsc_"+anID)
	metered := []counted{{operation: "MeteringSubscriptionsService_list", one: "subscription", more: "subscriptions"}}
	return noun{name: "metering", short: "Plans, subscriptions and what is left of their quotas", below: []noun{
		{name: "bucket", short: "Metering buckets", verbs: []verb{
			{name: "list", short: "List the metering buckets", operation: "MeteringBucketsService_list", shown: columns{"id", "createdOn"}},
			{name: "get", short: "Show a metering bucket", operation: "MeteringBucketsService_read", takes: []given{bucket}},
			{name: "create", short: "Make a metering bucket", operation: "MeteringBucketsService_create"},
			{
				name: "delete", short: "Delete a metering bucket, with its plans and subscriptions", operation: "MeteringBucketsService_delete", takes: []given{bucket},
				removes: &removal{what: "metering bucket", below: append([]counted{{operation: "MeteringPlansService_list", one: "plan", more: "plans"}}, metered...)},
			},
		}},
		{name: "plan", short: "Plans: how much of each meter a period has", verbs: []verb{
			{name: "list", short: "List the plans of a metering bucket", operation: "MeteringPlansService_list", takes: []given{inMeters}, shown: columns{"id", "label", "planExternalId", "meters", "hasSubscriptions"}},
			{name: "get", short: "Show a plan", operation: "MeteringPlansService_read", takes: []given{plan, inMeters}},
			{name: "create", short: "Make a plan", operation: "MeteringPlansService_create", takes: append([]given{inMeters}, planFlags(true)...), body: true},
			{name: updateVerb, short: "Change a plan", operation: "MeteringPlansService_update", takes: append([]given{plan, inMeters}, planFlags(false)...), body: true},
			{name: "delete", short: "Delete a plan", operation: "MeteringPlansService_delete", takes: []given{plan, inMeters}, removes: &removal{what: "plan"}},
		}},
		{name: "subscription", short: "Subscriptions of customers to plans", verbs: []verb{
			{
				name: "list", short: "List the subscriptions of a metering bucket", operation: "MeteringSubscriptionsService_list", takes: []given{inMeters},
				shown: columns{"id", "customerKey", "status", "planIds", "nextBillingCycle"},
			},
			{name: "get", short: "Show a subscription", operation: "MeteringSubscriptionsService_read", takes: []given{subscription, inMeters}},
			{name: "create", short: "Make a subscription", operation: "MeteringSubscriptionsService_create", takes: append([]given{inMeters}, subscriptionFlags()...), body: true},
			{
				name: updateVerb, short: "Change a subscription", operation: "MeteringSubscriptionsService_update", body: true,
				takes: []given{
					subscription, inMeters, metadata,
					{argument: "planExternalIds", flag: "plan-external-id", kind: asList, text: "your id of a plan"},
					{argument: "prorate", flag: "prorate", kind: asJSON, text: "the part of the new quotas that is left of this period, 0 to 1"},
					{argument: "status", flag: "status", text: "its status", choices: subscriptionStates(), sample: "canceled"},
					{argument: "trialEndDate", flag: "trial-end", kind: asTime, text: "when its trial ends"},
				},
			},
			{name: "delete", short: "Delete a subscription", operation: "MeteringSubscriptionsService_delete", takes: []given{subscription, inMeters}, removes: &removal{what: "subscription"}},
		}},
		{name: "quota", short: "What is left of the quotas of a subscription", verbs: []verb{
			{
				name: "get", short: "Show what is left of each meter", operation: "MeteringQuotasService_get",
				takes: []given{subscription, inMeters, {argument: "period", flag: "period", kind: asTime, text: "an instant of the period that is meant; the current one without it"}},
			},
		}},
	}}
}

// planFlags are those of a plan, of which a new one needs some.
func planFlags(made bool) []given {
	return []given{
		{argument: "label", flag: "label", text: "what it is called", required: made, sample: "Gold"},
		{argument: "planExternalId", flag: "external-id", text: "your id of it", required: made, sample: "gold"},
		{argument: "meters", flag: "meters", kind: asJSON, text: "how much of each meter a period has", required: made, sample: `'{"requests":{"max":1000}}'`},
		{argument: "trialDays", flag: "trial-days", kind: asNumber, text: "how many days a trial has"},
		{argument: "trialEndStatus", flag: "trial-end-status", text: "what a subscription is after its trial", choices: []string{"paused", "canceled"}},
		{argument: "isTrialCollectPayment", flag: "trial-collect-payment", kind: asBool, text: "whether a payment method is asked for in a trial"},
	}
}

func subscriptionStates() []string {
	return []string{"active", "inactive", "incomplete", "incomplete-expired", "trialing", "past-due", "canceled", "unpaid", "paused"}
}

func subscriptionFlags() []given {
	return []given{
		given{argument: "customerKey", flag: "customer", text: "the consumer's sub, by which a request is metered"}.must("acme"),
		given{argument: "customerExternalId", flag: "customer-external-id", text: "your id of the customer"}.must("cus_1"),
		given{argument: "subscriptionExternalId", flag: "external-id", text: "your id of the subscription"}.must("sub_1"),
		given{argument: "planIds", flag: "plan", kind: asList, text: "a plan, by its id"}.must("plan_" + anID),
		given{argument: "planExternalIds", flag: "plan-external-id", kind: asList, text: "your id of a plan"}.must("gold"),
		given{argument: "region", flag: "region", text: "where it is kept", choices: []string{"us-central1", "us-east1", "europe-west4"}}.must("europe-west4"),
		given{argument: "renewalStrategy", flag: "renewal", text: "how long a period is", choices: []string{"monthly", "yearly"}}.must("monthly"),
		{argument: "status", flag: "status", text: "its status", choices: subscriptionStates(), preset: "active"},
		{argument: "type", flag: "type", text: "its type", choices: []string{"periodic"}, preset: "periodic"},
		metadata,
		{argument: "productKey", flag: "product", text: "your id of the product"},
		{argument: "quotaResetAnchor", flag: "anchor", kind: asTime, text: "the instant that periods are counted from; its creation without it"},
		{argument: "trialStartDate", flag: "trial-start", kind: asTime, text: "when its trial begins"},
		{argument: "trialEndDate", flag: "trial-end", kind: asTime, text: "when its trial ends"},
		{argument: "trialEndStatus", flag: "trial-end-status", text: "what it is after its trial", choices: []string{"active", "inactive", "incomplete", "incomplete-expired", "past-due", "canceled", "unpaid", "paused"}},
	}
}
