"""Questions labelled with the route that they should take, written for this benchmark.

A question is `local` if it asks about particular persons, places, things, events or topics that
the text contains, and `global` if it asks about a text as a whole. Those of `TUNING` were used to
choose the words and limits of `retrieval/routing.py`. `SEEN` was measured once, and showed which
kinds were missing; `HELD_OUT` was written afterwards, and was used only to measure.
"""

from __future__ import annotations

TUNING = {
    "the_time_machine": {
        "local": """
Who is Weena?
What are the Morlocks afraid of?
What did Weena give to the Time Traveller?
What did the Time Traveller find in the Palace of Green Porcelain?
Why did the Eloi fear the dark?
What happened to the lever of the machine?
When did the sphinx open?
Who was at the dinner?
""",
        "global": """
What is this book about?
Summarize the story.
What are the main themes?
What is the mood of the ending of the novel?
How does the author imagine the future of humanity?
What is the moral of the tale?
""",
    },
    "pride_and_prejudice": {
        "local": """
Who is Mr. Collins?
Why does Elizabeth refuse Darcy's first proposal?
Where does Lady Catherine de Bourgh live?
What does Wickham tell Elizabeth about Darcy?
With whom did Lydia elope?
What happened at the Netherfield ball?
who is charlotte lucas
""",
        "global": """
What are the central themes of Pride and Prejudice?
Give me an overview of the plot.
How does the novel portray marriage?
What role does social class play in the book?
Describe the style of the narrator.
Who are the main characters?
""",
    },
    "qmsum": {
        "local": """
What did the professor think about the Wiener filter?
Summarize the discussion about the design of remote control for children.
What was said on speech overlap?
What did Marketing think of the LCD?
What was decided about the battery?
""",
        "global": """
Summarize the whole meeting.
What was the general discussion?
What were the key points and decisions?
Give a brief overview of the conversation.
What topics were covered?
""",
    },
}
"""Questions by text and route, one per line."""

SEEN = {
    "the_time_machine": {
        "local": """
How did the Time Traveller lose his machine?
What did Filby think of the experiment?
Who is the Medical Man?
What do the Eloi eat?
How did Weena almost drown?
What happened in the forest fire?
Why do the Morlocks live underground?
What did the Psychologist do with the little lever?
What was inside the White Sphinx?
Which flowers were in the pocket of the Time Traveller?
How did he escape from the Morlocks in the well?
What creatures did the Time Traveller meet on the beach?
where is the palace of green porcelain
""",
        "global": """
What is the main message of this novel?
Can you give me a summary of the whole book?
How is the story structured?
What does the story say about progress in general?
Outline the plot.
Which genre does this text belong to?
What view of the future does the writer express?
What is it all about?
""",
    },
    "pride_and_prejudice": {
        "local": """
How did Jane fall ill at Netherfield?
What does Mr. Bennet think of Mr. Collins?
Who pays for Lydia's wedding?
What is Pemberley like?
Why does Bingley leave Hertfordshire?
How does Darcy explain himself in his letter to Elizabeth?
Whom does Charlotte Lucas marry?
What did Lady Catherine demand of Elizabeth at Longbourn?
Who is Georgiana?
What do the Gardiners do for Elizabeth?
Where is Colonel Forster's regiment stationed?
When did Wickham intend to run away with Miss Darcy?
what does mrs bennet say about her nerves
""",
        "global": """
Summarize the novel in a few sentences.
What are the major themes of this book?
How does the author criticize society?
What is the overall tone of the book?
What lessons does the story teach?
What does the title mean for the story as a whole?
List the most important characters.
How do the characters change over the course of the novel?
""",
    },
    "moby_dick": {
        "local": """
Who is Queequeg?
How did Captain Ahab lose his leg?
What is the Pequod?
What does Father Mapple preach about?
Why does Starbuck object to the hunt?
What happened to Pip?
What is nailed to the mast?
Who owns the Spouter-Inn?
How does Ishmael survive?
What does Fedallah prophesy?
What is ambergris?
What did the captain of the Rachel ask of Ahab?
where does stubb come from
""",
        "global": """
What is Moby Dick about?
What does the whole book say about fate and obsession?
Give me a synopsis.
Describe the narrative style of the novel.
What are the key ideas of the work?
How does the story end overall and what is its moral?
What symbols run through the book?
Summarize all chapters briefly.
""",
    },
    "war_and_peace": {
        "local": """
How did Pierre inherit his fortune?
What happened to Prince Andrew at Austerlitz?
Whom does Natasha marry?
Who is Platon Karataev?
Why did Kutuzov abandon Moscow?
What did Napoleon say to Balashev?
Where does Princess Mary live?
Who duelled with Dolokhov?
How did Petya die?
What does Anna Pavlovna talk about at her soiree?
What happened during the burning of Moscow?
How did Anatole try to elope with Natasha?
who is helene kuragina
""",
        "global": """
What are the main themes of War and Peace?
Provide a summary of the novel.
What philosophy of history does the author present?
How does the book depict Russian society?
What is the point of the whole work?
Who are the principal characters of the book?
What is the plot?
""",
    },
    "qmsum": {
        "local": """
What did the professor think about improving the back recognizer for the Aurora task?
Why did the user interface designer propose the concept of intelligent controller?
What was the current situation of the tourism sector and what was the government going to do?
Summarize the discussion about the VCR / VHR / DVD capability button.
What did the group think of the wood case when discussing the key remote control concepts?
What did PhD A think about the results of the neural net?
What did Kirsty Williams say about the exams?
How did the team want to recharge the batteries?
What was the opinion on voice recognition?
Summarize the project manager's opinions towards product appearance.
""",
        "global": """
Summarize the meeting.
What was discussed in the meeting?
What are the main takeaways?
What were the conclusions of the meeting as a whole?
Please outline the entire discussion.
What is this transcript about?
What happened in the conversation?
""",
    },
}
"""Questions by text and route, one per line."""

HELD_OUT = {
    "the_time_machine": {
        "local": """
What did the Editor say about the story?
Why did the Time Traveller put on shoes of blood-stained socks?
Where do the Eloi sleep at night?
What weapon did the Time Traveller break off a machine?
What is the Provincial Mayor's opinion?
How does the Time Traveller light his camphor?
What did the crabs on the shore look like?
Who rescued Weena from the river?
tell me about the white sphinx
When did the solar eclipse happen?
Is Filby red-haired?
What did the Time Traveller take from the museum?
""",
        "global": """
What is the central idea of the novel?
Summarize this text for me.
What does the author warn against?
Describe the overall plot.
Who narrates the story, and in what tone?
Give the gist of the book.
What are the most important events of the whole story?
""",
    },
    "pride_and_prejudice": {
        "local": """
Why does Mr. Collins propose to Elizabeth?
What is the entail on Longbourn?
How did Darcy help Lydia?
Who is Mrs. Hill?
Where do Jane and Bingley live after their marriage?
What does Caroline Bingley write to Jane?
Who tells Elizabeth about Wickham's past at Pemberley?
What did Mr. Bennet say when Lydia eloped?
How far is Lucas Lodge from Longbourn?
Does Mary play the piano?
what did kitty do in brighton
Who danced with Elizabeth at Netherfield?
""",
        "global": """
What is Pride and Prejudice about?
What are the principal themes?
How would you describe the tone of the novel?
Summarize the plot in five sentences.
What does the author think of marriage?
Which characters are the main characters, and what do they symbolize?
What moral does the book teach?
Outline the novel.
""",
    },
    "moby_dick": {
        "local": """
What prophecy does Elijah make?
Who is Bildad?
Why does Ahab throw away his pipe?
What does Queequeg do with his coffin?
How did Tashtego fall into the whale's head?
What is Stubb's favorite food?
Where does the Pequod sail from?
What did Starbuck think of while he held the musket?
Who is the carpenter?
How is blubber cut?
What happened to Captain Boomer's arm?
what is a gam
""",
        "global": """
Summarize Moby Dick.
What are the major themes of the book?
How does the author mix genres?
What is the whole novel about?
Give a short overview of the story.
What is the narrator's style?
What message does the work as a whole convey?
""",
    },
    "war_and_peace": {
        "local": """
Who is Vasili Kuragin?
What happened to Nicholas Rostov at the card table?
Why did Pierre want to kill Napoleon?
How did the old count Rostov lose his money?
What did Prince Andrew think when he saw the oak?
Who is Marya Dmitrievna?
What did Kutuzov do at Borodino?
Where is Bald Hills?
How does Pierre become a Freemason?
Whom does Nicholas marry?
What happened to Karataev's dog?
Who commanded the battery at Schon Grabern?
when was smolensk abandoned
What did Helene say to Pierre about the duel?
""",
        "global": """
Summarize War and Peace.
What is the book's overall message?
What are the key themes of the novel?
Describe the structure and the narrative style.
What does the author say about free will in general?
Give me the plot.
What does the whole book teach about power?
Who are the central characters?
""",
    },
    "qmsum": {
        "local": """
What did the marketing expert say about the target group?
Why did they reject the scroll wheel?
What was decided about the titanium case?
What did Grad C say about the data collection?
How many microphones are used in the recordings?
What did the committee say about foster care?
Summarize the discussion about the belief net.
What does the user interface designer want on the remote?
What did Huw Irranca-Davies ask?
What was the price of the remote control?
What did the professor suggest about the recording of the digits?
Summarize what was said about the childcare offer.
What did PhD F think about the spectral subtraction?
""",
        "global": """
Summarize the entire discussion.
What is the meeting about?
What were the main points?
Give me an overview of everything that was discussed.
What happened in the meeting?
What were the general conclusions?
Briefly outline the whole conversation.
""",
    },
}
"""Questions by text and route, one per line."""
