package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestBudgetNotifiesEachTopic when most of it is spent, and when AWS forecasts more than all of it.
func TestBudgetNotifiesEachTopic(t *testing.T) {
	for name, tt := range map[string]struct {
		a      assembly
		topics []string
	}{
		"an address":             {synthesise(t, everything()), []string{"${AlarmTopic}"}},
		"a topic":                {synthesiseFew(t, needed(map[string]string{"alarmTopic": topic, "monthlyBudget": "100"})), []string{topic}},
		"an address and a topic": {synthesiseFew(t, needed(map[string]string{"alarmTopic": topic, "alarmEmail": email, "monthlyBudget": "100"})), []string{"${AlarmTopic}", topic}},
		"no budget":              {synthesiseFew(t, needed(map[string]string{"alarmTopic": topic})), nil},
	} {
		t.Run(name, func(t *testing.T) {
			var topics []string
			for id, budget := range tt.a.all("AWS::Budgets::Budget") {
				of := get(budget.Properties, "Budget")
				if got := fmt.Sprint(get(of, "BudgetType"), get(of, "TimeUnit"), get(of, "BudgetLimit", "Amount"), get(of, "BudgetLimit", "Unit"), get(of, "CostFilters"), get(of, "BudgetName")); got != fmt.Sprint("COST", "MONTHLY", 100.0, "USD", nil, nil) {
					t.Errorf("%s is %s, want a hundred dollars a month of the account, without a name", id, got)
				}
				var at []string
				notifications, _ := budget.Properties["NotificationsWithSubscribers"].([]any)
				for _, n := range notifications {
					of := get(n, "Notification")
					at = append(at, fmt.Sprint(get(of, "NotificationType"), " ", get(of, "ComparisonOperator"), " ", get(of, "Threshold"), " ", get(of, "ThresholdType")))
					topics = append(topics, render(get(n, "Subscribers", 0, "Address")))
				}
				if want := []string{"ACTUAL GREATER_THAN 80 PERCENTAGE", "FORECASTED GREATER_THAN 100 PERCENTAGE"}; !slices.Equal(at, want) {
					t.Errorf("%s notifies at %q, want %q", id, at, want)
				}
			}
			slices.Sort(topics)
			if topics = slices.Compact(topics); !slices.Equal(topics, tt.topics) {
				t.Errorf("budgets notify %q, want %q", topics, tt.topics)
			}
		})
	}
}

// TestBudgetThatNotifiesNobodyIsRefused, and one of an emulator.
func TestBudgetThatNotifiesNobodyIsRefused(t *testing.T) {
	if _, err := stage(`{`+said+`, "monthlyBudget": 100}`, nil); err == nil || !strings.Contains(err.Error(), "infra/stages/team.json or the context: monthlyBudget notifies nobody without alarmEmail or alarmTopic") {
		t.Errorf("without an address: error %v, want one that names alarmEmail and alarmTopic", err)
	}
	for _, file := range []string{`, "monthlyBudget": 0`, `, "monthlyBudget": 100, "alarmEmail": "` + email + `"`} {
		if _, err := stage(`{`+said+file+`}`, nil); err != nil {
			t.Errorf("%s: error %v, want none", file, err)
		}
	}
	_, err := settingsOf(func(name string) any {
		return map[string]any{"emulator": localStack, "gatewayUrl": "http://{deployment}.apis.example.com", "monthlyBudget": "100"}[name]
	})
	if err == nil || !strings.Contains(err.Error(), "monthlyBudget is not for emulators") {
		t.Errorf("an emulator: error %v, want that monthlyBudget is not for emulators", err)
	}
}
