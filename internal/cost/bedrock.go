package cost

import "fmt"

// The number of questions to models of Bedrock, and the tokens of each question. They are assumptions: docs/cost.md
// states each.
const (
	questions      = 1000
	questionTokens = 20
	promptTokens   = 500
	passages       = 6 // of the documentation, for each question
	passageTokens  = 170
	answerTokens   = 250
)

// bedrock returns the items of the cost of a thousand questions about the documentation if models of Bedrock search and
// write the responses.
func bedrock() []item {
	perQuestion := float64(promptTokens + passages*passageTokens + questionTokens) // tokens that the model reads
	return []item{
		{
			"vectors of questions", fmt.Sprintf("%d × %d tokens", questions, questionTokens),
			dollars(vectorToken, questions*questionTokens),
		},
		{
			"what the model reads", fmt.Sprintf("%d × %g tokens", questions, perQuestion),
			dollars(tokenIn, questions*perQuestion),
		},
		{
			"what it writes", fmt.Sprintf("%d × %d tokens", questions, answerTokens),
			dollars(tokenOut, questions*answerTokens),
		},
	}
}

// questionTable returns a table of items and their sum. Its amounts have four decimals, because an item can cost less
// than a cent.
func questionTable(items []item) string {
	t := newTable("what", "how much", "$ for 1,000 questions")
	for _, i := range items {
		t.row(i.name, i.quantity, fmt.Sprintf("%.4f", i.dollars))
	}
	t.row("**sum**", "", fmt.Sprintf("**%.2f**", billTotal(items)))
	return t.String()
}
