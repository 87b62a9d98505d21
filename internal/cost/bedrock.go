package cost

import "fmt"

// What a question to models of Bedrock takes, in tokens. Assumed: docs/cost.md states each.
const (
	questions      = 1000
	questionTokens = 20
	promptTokens   = 500
	passages       = 6
	passageTokens  = 170
	answerTokens   = 250
)

// bedrock is what a thousand questions about the documentation cost where models of Bedrock search and answer.
func bedrock() []item {
	in := float64(promptTokens + passages*passageTokens + questionTokens)
	return []item{
		{"vectors of questions", fmt.Sprintf("%d × %d tokens", questions, questionTokens), dollars(vectorToken, questions*questionTokens)},
		{"what the model reads", fmt.Sprintf("%d × %g tokens", questions, in), dollars(tokenIn, questions*in)},
		{"what it writes", fmt.Sprintf("%d × %d tokens", questions, answerTokens), dollars(tokenOut, questions*answerTokens)},
	}
}

// questionTable has the sum of items that cost less than a cent.
func questionTable(items []item) string {
	t := newTable("what", "how much", "$ for 1,000 questions")
	for _, i := range items {
		t.row(i.what, i.how, fmt.Sprintf("%.4f", i.dollars))
	}
	t.row("**sum**", "", fmt.Sprintf("**%.2f**", bill(items)))
	return t.String()
}
