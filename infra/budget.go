package main

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsbudgets"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// Topics are notified if the costs so far are more than spentPercent of a month's budget, and if the costs that AWS
// forecasts for the month are more than forecastPercent of it.
const (
	spentPercent    = 80
	forecastPercent = 100
)

// newBudgets creates a budget for each topic, because a notification has at most one topic. Budgets without actions
// cost nothing.
//
// Budgets are for the whole account. The installation's resources have tags, but AWS counts costs by a tag only after
// somebody has activated the tag in the billing settings, and some costs have no tag. A budget by tags would miss these
// costs.
func newBudgets(scope constructs.Construct, s Settings, topics []*string) {
	if s.MonthlyBudget == 0 {
		return
	}
	for i, topic := range topics {
		id := "Budget"
		if i > 0 {
			id = fmt.Sprintf("Budget%d", i+1)
		}
		notification := func(kind string, percent float64) *awsbudgets.CfnBudget_NotificationWithSubscribersProperty {
			return &awsbudgets.CfnBudget_NotificationWithSubscribersProperty{
				Notification: &awsbudgets.CfnBudget_NotificationProperty{
					NotificationType: &kind, ComparisonOperator: jsii.String("GREATER_THAN"), Threshold: &percent,
					ThresholdType: jsii.String("PERCENTAGE"),
				},
				Subscribers: &[]any{&awsbudgets.CfnBudget_SubscriberProperty{SubscriptionType: jsii.String("SNS"), Address: topic}},
			}
		}
		// The template sets no name. If the topic changes, CloudFormation creates a new budget before it deletes this
		// one, and two budgets cannot have the same name.
		awsbudgets.NewCfnBudget(scope, &id, &awsbudgets.CfnBudgetProps{
			Budget: &awsbudgets.CfnBudget_BudgetDataProperty{
				BudgetType: jsii.String("COST"), TimeUnit: jsii.String("MONTHLY"),
				BudgetLimit: &awsbudgets.CfnBudget_SpendProperty{Amount: jsii.Number(s.MonthlyBudget), Unit: jsii.String("USD")},
			},
			NotificationsWithSubscribers: &[]any{
				notification("ACTUAL", spentPercent),
				notification("FORECASTED", forecastPercent),
			},
		})
	}
}
