"""Questions about a text as a whole, and similar ones about something particular.

A line stands for all questions that result from choosing one of the words in each bracket; an empty
choice is possible. They were written for the classifier. The test set is elsewhere
(`tests/data/requests.jsonl`), and was written afterwards, without changes to these lines.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator

_CHOICE = re.compile(r"\(([^()]*)\)")

_PER_LINE = 12
"""Maximum number of questions of a line, drawn with a fixed seed."""

OVERVIEW = """
(Summarize|Summarise|Sum up|Recap|Condense|Outline) (the|this|all the|all|these|my) (text|messages|documents|emails|notes|meeting|report)(|, please|.)
(summarize|recap|sum up) (this|it|everything|all of it)
(Can|Could) you (summarize|recap|outline|sum up) (the|this) (article|conversation|thread|file|memo|whole book)(|?| for me| for me?)
(Please |)give me (a|an) (summary|overview|outline|synopsis|recap|rundown|digest) of (the|this) (text|paper|chat|novel|story|transcript|meeting)(.|)
(Give|Write|Provide) (me |)a (brief|short|quick|concise|one-paragraph) (summary|overview|recap)(| of everything| of it all| of the document)
I (need|want|would like) (a|an) (summary|overview|recap|digest)(| of this| of all messages| of the files)
(tl;dr|TL;DR|tldr|TLDR|tl dr)(|?| please| of this| of the thread)
(summary|overview|recap|synopsis|gist|highlights|key points|main points|takeaways)(|?| please| of the text| of the meeting)
(What|Which) (topics|themes|subjects|issues|points|questions|areas) (are|were) (covered|discussed|addressed|mentioned|raised|treated)(?| here?| in the text?| in this document?| in the meeting?)
(What|Which) (topics|themes|subjects|things) does (the|this) (text|book|report|document|paper|conversation) (cover|discuss|address|deal with|touch on|treat)?
(List|Name|Show|Give me) (all |)(the |)(main|key|most important|central|major|principal|chief) (findings|points|topics|ideas|conclusions|results|arguments|events|takeaways|themes|decisions)(.| of the report.| in this paper| of the book)
What (are|were) the (main|key|most important|central|major|primary|biggest) (findings|points|topics|ideas|conclusions|results|arguments|events|takeaways|themes|decisions|messages|lessons)(?| of the text?| here?| of this study?| in the documents?)
What (is|was) the (main|central|key|overall|general) (idea|point|message|argument|theme|thesis|topic|subject|content)(?| of the text?| of it all?| of this book?| here?)
What('s| is) (this|the|it|it all|all this) (text |book |document |)about?
What (is|are) (the|these|those) (text|files|documents|emails|notes|messages) about(?|, in short?| in general?|, in a few words?)
What (do|does) (the|these) (documents|notes|reports|messages|paper|text) (say|contain|cover|discuss|deal with)(?| in general?| overall?)
What (did|do) (they|we|people|everyone) (talk about|discuss)(?| in the meeting?| overall?| in these messages?| in general?)
What (was|has been) (discussed|said|covered|talked about)(?| in the meeting?| overall?| so far?| in these conversations?)
(What|Tell me what) (happened|happens) in (this|the) (story|book|novel|meeting|conversation|chapter|text)(?|)
(Tell|Show) me what (this|the text|the book|it) is (all |)about(.|)
(Tell me about|Describe|Explain) (this|the|the whole|the entire) (text|document|book|report|collection|story)(.|)
(In short|In brief|In a nutshell|Briefly|In one sentence|In a few words|Basically), what (is|does) (this|the text) (about|say)?
(Boil|Break) (it|this|everything|the text|the report) down(| for me|to the main points| to a few bullet points)
(Catch me up|Fill me in|Bring me up to speed|Get me up to speed|Brief me|Update me)(.| on everything| on the conversation| on the messages| on this thread)
(Walk me through|Take me through|Run me through) (the|this) (document|report|text|story|slides)(.|)
What did I miss(?| in the chat?| in the meeting?| in these messages?)
(What|Which) (is|are) the (gist|essence|bottom line|upshot|big picture)(?| of this?| of the text?| here?)
What('s| is) the (gist|point|upshot|takeaway|bottom line|big picture)?
(Give me|I need|Show me) the (gist|essentials|highlights|main ideas|big picture|key facts|bullet points)(.| of this| of all this)
What (should|do) I (need to |)know (about|from) (this|the|these) (text|document|documents|report|messages)?
What can (I|we) learn from (this|these|the) (text|documents|book|notes)?
(Which|What) (conclusions|lessons|results|decisions) (can be drawn|were reached|were made|are presented)(?| in the paper?| in the meeting?)
What (conclusions|findings|decisions) (does|did) (the|this) (paper|report|study|meeting) (present|come to|include|contain)?
What kind of (text|document|documents|book|content|information) is (this|here|in here)?
What('s| is) in (the|this|these|here) (files|documents|collection|folder|document|text)?
What (does|do) (this|the|these) (collection|folder|corpus|files|documents) contain?
(Overview|Summary|Synopsis|Outline) of the (whole|entire|full) (text|book|document|story|meeting)
(Summarize|Condense|Distill) (everything|all of this|the whole thing|all documents) (into|in|to) (one|two|three|five|a few) (sentences|points|bullet points|lines|paragraphs|words)
(Digest|Abridge|Abstract|Synthesize) (the|this|these) (text|report|papers|articles)
What are the (common|recurring|overarching|underlying|general) (themes|threads|ideas|topics)(?| across the documents?| in all texts?)
(How|Can you) would you (summarize|describe|sum up) (this|the text|the book|the whole story)(| in a few words)?
What (are|were) the (contents|topics|subjects|themes)(?| of the text?| of the document?| of these messages?)
(Quick|Brief|Short) (summary|recap|overview)(, please|?|)
(Everything|All) (important|essential)(,| in the text| in brief| in short)(| please)
What is (important|essential|most important) (here|in this text|in the document)?
(Extract|Pull out|Find|Identify|Highlight|Collect) the (key|main|most important|major) (points|ideas|takeaways|topics|facts|insights)(.| from the text.| of the documents.)
What (news|updates) (is|are) there(?| in the messages?| in the emails?)
What does the author (say|argue|want to say|discuss)(?| in general?| in this book?| overall?)
(Make|Create|Draft|Prepare|Write) (a|an) (summary|overview|outline|abstract|digest)(.| of the text.| of this document| of all notes)
(What|How) (is|are) the (plot|story|storyline|narrative)(?| of the book?| of the novel?)
(Retell|Tell) (the|me the|the whole) (story|plot)(.| briefly| in short)
"""

OVERVIEW_ZH = """
(总结|概括|归纳|梳理|概述|提炼|小结)(一下|)(这篇|全部|所有|整个|这些|)(文章|文档|消息|会议|内容|报告|资料|聊天记录)(。|)
(请|请你|帮我|麻烦|)(总结|概括|归纳|简述|梳理)(一下|)(全文|全书|本文|所有内容|这本书|这份报告|会议内容)
(这篇|这份|这本|该|)(文章|报告|书|小说|文档)(主要|大概|到底|)(讲了|讲的是|说了|写了|是关于)什么(？|内容？|)
(主要|核心|关键|重要)(内容|观点|结论|议题|要点|思想|发现)(是什么|有哪些|是啥|包括什么)？
(列出|列举|说说|给出)(所有|主要|)(的|)(主要|重要|关键|核心)(的|)(发现|观点|要点|结论|话题|内容|事件)
(涉及|讨论|涵盖|谈到|提到)了(哪些|什么)(话题|主题|议题|内容|方面|问题)？
(会议|大家|这次会议|对话|他们)(都|主要|)(讨论|谈|聊)了(什么|哪些内容|哪些话题|哪些问题)？
(给我|写|来)(一个|一份|一段|个)(摘要|概要|总结|概述|提纲|大纲|简介)(。|吧|)
(摘要|概要|总结|梗概|要点|太长不看|大意|概览)(。|？|)
用(一句话|几句话|三句话|一百字以内)(总结|概括)(全文|一下|这篇文章|所有内容)
(全文|整篇文章|这个故事|全书|这些文档)(的|)(大意|主旨|中心思想|主题|梗概|主要内容)(是什么|)？
(介绍|讲讲|说说)(一下|)(这本书|这篇文章|整个故事|这些资料|全部内容)
(有|都有)(哪些|什么)(主要|重要|关键)(的|)(内容|信息|观点|决定|结论)？
(这些|所有)(文件|文档|消息|邮件|笔记)(里|中|)(都|)(讲了|说了|有|写了)(什么|些什么|哪些内容)？
(主要|最后)(做出|得出)了(哪些|什么)(决定|结论)？
(我|)错过了什么？
"""

ENDING = """
How (does|did) (it|it all|this|everything|the story|the book|the novel|all this) (end|turn out|finish|conclude|wrap up|resolve)(?| in the end?)
How (do|did) (things|things all|the events|matters) (end|turn out|end up|finish|work out)(?| in the end?)
What (happens|happened) (at the end|in the end|at the very end|last|finally|in the last chapter|in the final chapter|in the end of the book)(?| of the story?| of the book?| of the text?)
(What|How) (is|was) the (ending|end|conclusion|finale|outcome|final outcome|resolution)(?| of the story?| of the novel?| of the book?| of it all?)
(Tell me|Describe|Explain|Summarize|Give away|Spoil) (how it ends|the ending|how everything ends|the end of the story|how the book ends|the end)(.|)
(How|In what way) is (everything|it all|the story|the plot) (resolved|concluded|brought to an end|wrapped up)?
(Does|Did) (it|the story|the book|everything) (end|turn out) (well|happily|badly|in the end)?
(Is|Was) there a happy (end|ending)(?| in the book?| to the story?)
(What|How) (becomes|became) of (everyone|them all|the characters|everybody) (in the end|at the end|finally)?
How (does|did) everyone end up(?| in the end?)
What is the (last|final) (thing|event|scene|part) (that happens|)(?| in the story?| of the book?)
Where does (everyone|everybody|it all|the story) end(?| up?)
How did (it|this|the whole thing) all (come out|come to an end|turn out|end)?
And (in the end|how does it end|how did it end|at the end)?
"""

ENDING_ZH = """
(故事|小说|这本书|全书|最后|这个故事|)(的|)(结局|结尾|下场)(是什么|是怎样的|怎么样|如何|是啥)？
(故事|小说|事情|一切|这本书|)(最后|最终|到头来)(怎么样了|怎样了|如何了|怎么了|发生了什么|如何收场|怎么结束的)？
(故事|书|小说|一切|整个故事)是(怎么|怎样|如何)(结束|收场|收尾)的？
(讲讲|说说|介绍一下|告诉我)(结局|结尾|故事的结局|小说的结尾)
(大家|所有人|人物们|主角)(最后|最终)(怎么样了|的结局如何|怎样了|下场如何)？
"""

OTHER = """
What (topics|issues|points) did (Anna|the professor|Marketing|Bennett) (cover|raise|mention|discuss)?
(Summarize|Recap|Outline) (the battery discussion|what Anna said|the hiring plans|the remarks on cost|Chapter 3|the attack|Darcy's letter)(.|)
Summarize the (discussion|conversation|debate|part|section) (about|on|of) (the remote control|speech overlap|tuition fees|safety|Brexit)
(List|Name) the main (findings of Kepler|ingredients|suppliers|exports of Peru|cities|causes of the war|side effects|rivers|symptoms|features of the camera)
What (are|were) the main (causes of the war|ingredients|symptoms|exports|characters' names|differences between the models|duties of the treasurer|risks of surgery|benefits of exercise)?
What (is|was) the main (road|ingredient|export|language|reason for the delay|rival of the club|building|entrance|cause of death)?
What (is|was) the (outcome|result|conclusion) of the (vote|battle|trial|election|experiment|match|war)?
How did the (war|match|battle|trial|marriage|strike|vote|experiment|career of the singer) (end|turn out|finish)?
When (does|did) the (meeting|lecture|session|play|discussion|lease) (end|finish|begin|start)?
Where (is|was|are) the (end of the road|meeting|manual|files|documents|last station|conclusion)(| kept| held)?
(Who|When) (wrote|published|sent|received|read) the (report|book|message|documents|article|letter|paper|email)?
(Who|What) is the (author|publisher|title|date|length|price) of the (book|report|article|document|paper)?
How (many|long) (messages|documents|pages|chapters|emails|topics) (are|is) (there|the report|the book|sent|needed)?
(What|Which) (email|message|document|note) (mentions|contains|covers) the (budget|password|invoice|address|deadline)?
What does the (report|book|article|manual|paper) say about (salaries|the battery|Anna|exercise|inflation|the warranty)?
What (did|does) (Anna|the mayor|he|Dr. Falk) (say|write|discuss|mention|conclude) (about|in) (the report|the budget|the meeting|the letter)?
What happened (to|with) (Anna|the ship|the observatory|the money|the contract)( in the end| at the end of the war|)?
What happens (when|if) (the button is pressed|water boils|the message is deleted|it rains)(| at the end)?
What is (covered|included|mentioned) (by|in) (the insurance|the price|the warranty|article 5|the contract of sale)?
(Is|Are) (breakfast|dental care|shipping|flood damage) (covered|included|mentioned)?
(What|Which) key (opens|is used for|signature does) (the door|the song|the safe)?
(Give me|Show me|Find|Tell me) the (email of Anna|price of the ticket|number of the clinic|address|password|date of the meeting|name of the author|time of the train)
(Explain|Describe) (the battery|photosynthesis|the role of Anna|the Wiener filter|how to file a claim|the fee)(.|)
Tell me about (Anna|the Tarn Observatory|Haugen|the budget|dolphins|the merger)
What('s| is) (Anna|the Wiener filter|a digest|an abstract class|the capital of Peru|Brexit|SAML)(?| about?)
Who (is|was|are|were) (Anna|the last Kolb|he|the main suppliers|the key witness|the final speaker|the chairman)?
(How|Why) (do|did|can|should|does) (I|he|she|they|we|it) (reset the password|send a message|end the call|leave|finish the task|close the file|cancel|die|work)?
How do I (summarize a text|write a summary|end a letter|list all files|close a document|delete all messages|read the log|open a file)( in Word| in Python| with the tool|)?
(Where|When|Why|How|Who)?
(What|Why) (is it|is that|was he|did she)?
(And|But) (on Sundays|in Texas|the second one|why|how|when)?
(What time|What day|What year|Which year|How much|How often|How far) is (it|the meeting|the last train|the ticket)?
(What|Which) (is|was) the (last|final|first|next) (train|king|song|chapter of Emma|station|question of the exam|letter of the alphabet)?
(What|Who|Where) (was|is) the (final|last) (score|speaker|exam|episode)?
What did (he|she|they|it) (do|say|want|find|mean|write)(?| then?| there?| next?| at the end of his life?)
What does (it|he|she|this word|that) (mean|do|cost|say|want)?
What do (people|they|we|cats|they all) (eat|need|want|do|think of the plan|say about the mayor)?
Is (it|this|that) (true|possible|free|open|included|important)?
(What|Which) (decision|result|idea|point) (did the board|was about the logo|of Anna's|cost most)?
(Compare|Contrast) (Anna and Bob|the two plans|the findings of the labs|chapters 1 and 2)
(List|Show|Name) all (countries|employees|meetings with Ben Hamre|invoices|messages from Anna|files in Haugen|projects of 2019|books by Ann Holm)
(Summarize|Explain|Outline) the (plot against the king|theory of relativity|history of Norway|terms of the treaty|rules of chess|life of Curie)
What (themes|ideas|topics) (does|do) (Curie|the second speaker|Holm's poems|kids) (discuss|like|explore|share)?
Who (said|wrote|mentioned|discussed|argued) (it|that|this|what|the most)?
What is the (subject|content|topic|text) of the (email|letter|message) (from Anna|to the mayor|of 3 May)?
"""

OTHER_ZH = """
(总结|概括|介绍)(一下|)(曹操的生平|赤壁之战|第三章|张三的发言|电池的讨论|预算部分|王熙凤的性格)
(张三|教授|曹操|经理)(讨论|提到|说|写)了(什么|哪些问题|什么内容)？
(主要|重要)(的|)(原料|出口商品|城市|供应商|河流|病因|症状)(是什么|有哪些)？
(战争|比赛|投票|审判|实验|婚姻)(的|)(结果|结局)(是什么|如何)？
(会议|课程|演出|比赛)(什么时候|几点|在哪里)(结束|开始|举行)？
(谁|何时)(写了|发表了|发送了|收到了)(这份报告|这本书|消息|文件|文章)？
(曹操|黛玉|那艘船|公司|林冲)(最后|后来|最终)(怎么样了|去了哪里|怎么死的|的结局如何)？
(报告|文章|书)中(关于|对)(工资|电池|通货膨胀|张三)(说了什么|怎么说|的看法是什么)？
(如何|怎么)(写总结|删除消息|打开文件|发送邮件|列出文件|结束通话)？
(会议|书|报告|文章)的(作者|日期|题目|出版社|地点)是(谁|什么|哪里)？
(谁|什么|哪里|为什么|怎么|多少)？
(他|她|它|他们)(是谁|在哪里|做了什么|说了什么|后来呢|多大了)？
(有多少|哪些)(消息|文件|人|城市|邮件|员工)(提到预算|来自张三|住在北京|被删除了)？
"""


def expanded(lines: str) -> list[str]:
    """Return at most 12 of the questions of each line, without duplicates, in a fixed order."""
    draw, found = random.Random(0), {}  # noqa: S311 - no secret
    for line in lines.strip().splitlines():
        questions = list(_choices(line))
        found |= dict.fromkeys(draw.sample(questions, min(_PER_LINE, len(questions))))
    return list(found)


def _choices(line: str) -> Iterator[str]:
    parts = _CHOICE.split(line)
    options = [part.split("|") if number % 2 else [part] for number, part in enumerate(parts)]
    for chosen in itertools.product(*options):
        yield " ".join("".join(chosen).split())
