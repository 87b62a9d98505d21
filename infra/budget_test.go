package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestBudgetNotifiesEachTopic checks that each topic is notified when 80 % of the budget is spent, and when AWS
// forecasts more than 100 %.
func TestBudgetNotifiesEachTopic(t *testing.T) {
	for name, tt := range map[string]struct {
		a      assembly
		topics []string
	}{
		"email address": {synthesize(t, fullContext()), []string{"${AlarmTopic}"}},
		"topic": {synthesizeFew(t,
			minimalContext(map[string]string{"alarmTopic": topicARN, "monthlyBudget": "100"})), []string{topicARN}},
		"email address and topic": {
			synthesizeFew(t,
				minimalContext(map[string]string{"alarmTopic": topicARN, "alarmEmail": email, "monthlyBudget": "100"})),
			[]string{"${AlarmTopic}", topicARN},
		},
		"no budget": {synthesizeFew(t, minimalContext(map[string]string{"alarmTopic": topicARN})), nil},
	} {
		t.Run(name, func(t *testing.T) {
			var topics []string
			for id, budget := range tt.a.all("AWS::Budgets::Budget") {
				properties := get(budget.Properties, "Budget")
				got := fmt.Sprint(get(properties, "BudgetType"), get(properties, "TimeUnit"),
					get(properties, "BudgetLimit", "Amount"), get(properties, "BudgetLimit", "Unit"), get(properties, "CostFilters"),
					get(properties, "BudgetName"))
				if got != fmt.Sprint("COST", "MONTHLY", 100.0, "USD", nil, nil) {
					t.Errorf("%s is %s, want a cost of 100 USD per month without a filter and a name", id, got)
				}
				var thresholds []string
				notifications, _ := budget.Properties["NotificationsWithSubscribers"].([]any)
				for _, n := range notifications {
					properties := get(n, "Notification")
					thresholds = append(thresholds, fmt.Sprint(get(properties, "NotificationType"), " ",
						get(properties, "ComparisonOperator"), " ", get(properties, "Threshold"), " ", get(properties, "ThresholdType")))
					topics = append(topics, render(get(n, "Subscribers", 0, "Address")))
				}
				if want := []string{
					"ACTUAL GREATER_THAN 80 PERCENTAGE",
					"FORECASTED GREATER_THAN 100 PERCENTAGE",
				}; !slices.Equal(thresholds, want) {
					t.Errorf("%s notifies at %q, want %q", id, thresholds, want)
				}
			}
			slices.Sort(topics)
			if topics = slices.Compact(topics); !slices.Equal(topics, tt.topics) {
				t.Errorf("budgets notify %q, want %q", topics, tt.topics)
			}
		})
	}
}

// TestBudgetWithoutRecipientsIsRefused checks a budget without recipients, and one for an emulator. A budget with a
// recipient, and no budget, are accepted.
func TestBudgetWithoutRecipientsIsRefused(t *testing.T) {
	if _, err := loadTestStage(`{`+validSettings+`, "monthlyBudget": 100}`, nil); err == nil ||
		!strings.Contains(err.Error(), "infra/stages/team.json or the context: monthlyBudget notifies nobody without "+
			"alarmEmail or alarmTopic") {
		t.Errorf("loadTestStage(budget without recipients) error = %v, want alarmEmail and alarmTopic in it", err)
	}
	for _, file := range []string{`, "monthlyBudget": 0`, `, "monthlyBudget": 100, "alarmEmail": "` + email + `"`} {
		if _, err := loadTestStage(`{`+validSettings+file+`}`, nil); err != nil {
			t.Errorf("loadTestStage(%s) error = %v, want none", file, err)
		}
	}
	_, err := settingsFromContext(func(name string) any {
		return map[string]any{
			"emulator": localStack, "gatewayUrl": "http://{deployment}.apis.example.com",
			"monthlyBudget": "100",
		}[name]
	})
	if err == nil || !strings.Contains(err.Error(), "monthlyBudget is not for emulators") {
		t.Errorf("settingsFromContext(emulator with a budget) error = %v, want \"monthlyBudget is not for emulators\"",
			err)
	}
}
