"""Local and global questions about Pride and Prejudice."""

QUESTIONS = (
    "What does Mr. Darcy think of Elizabeth Bennet when they first meet?",
    "Why does Charlotte Lucas marry Mr. Collins?",
    "What happens between Wickham and Georgiana Darcy?",
    "Where is Pemberley and who keeps the house?",
    "How do pride and first impressions mislead people?",
    "Why does Mr. Bingley leave Netherfield?",
    "What does Lady Catherine de Bourgh demand of Elizabeth?",
    "With whom does Lydia Bennet elope from Brighton?",
    "What does Mr. Darcy's letter say about Wickham?",
    "Why is the Longbourn estate entailed on Mr. Collins?",
    "How does Jane Bennet fall ill at Netherfield?",
    "What do Mr. and Mrs. Gardiner do for the Bennet family?",
    "How does Miss Bingley try to win Mr. Darcy?",
    "What part does Colonel Fitzwilliam play in Elizabeth's opinion of Darcy?",
    "How does Mrs. Bennet try to marry off her daughters?",
    "What does Mr. Bennet regret about his family?",
    "Who pays Wickham's debts and why?",
    "How does Elizabeth change her mind about Mr. Darcy?",
    "What role do money and marriage play in the story?",
    "How do the militia officers at Meryton change life at Longbourn?",
)
WARM_UP = "Who is Kitty Bennet?"
