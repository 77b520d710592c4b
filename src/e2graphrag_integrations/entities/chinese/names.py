"""Parts of Chinese names: surnames, given names and forms of address."""

from __future__ import annotations

import re
from collections.abc import Iterator

from e2graphrag_integrations.text.letters import HAN_LETTERS

_SURNAMES = frozenset(
    "赵钱孙李周吴郑王冯陈蒋沈韩杨朱秦尤许何吕张孔曹严华金魏陶姜谢邹窦章苏潘葛范彭郎鲁"
    "韦马苗凤方俞任袁柳鲍史唐费薛雷贺倪汤罗毕郝安常于傅齐康伍余顾孟黄穆萧肖尹姚邵汪祁"
    "毛米戴宋庞熊纪舒项祝董梁杜阮蓝闵季贾江童颜郭梅林钟徐邱丘骆高夏蔡田樊胡凌霍虞万柯"
    "管卢莫房解应宗丁宣邓洪包左石崔吉龚程邢裴陆翁荀甄曲段侯宁仇祖武符刘景詹龙叶黎白蒲"
    "邰从赖卓屠池乔闻党翟谭姬申冉桑桂牛边燕尚温庄晏柴阎连习向古易廖耿匡文寇关岳聂敖饶"
    "曾沙简游车辛涂"
)
"""Common surnames of one character, simplified."""

_COMPOUND_SURNAMES = frozenset(
    """
    欧阳 司马 诸葛 上官 夏侯 皇甫 尉迟 公孙 慕容 令狐 司徒 司空 东方 南宫 西门 端木 独孤
    太史 淳于 长孙 宇文 轩辕 呼延 澹台 申屠 公羊 钟离 濮阳 百里 东郭 完颜 耶律 拓跋
    爱新觉罗
    """.split()
)

_ADDRESSES = """
    董事长 总经理 总司令 副总统 大将军 先生 女士 小姐 太太 夫人 老师 教授 博士 医生 大夫
    院士 律师 记者 法官 总统 主席 总理 首相 部长 省长 市长 县长 局长 院长 校长 总裁 经理
    书记 委员 议员 将军 上将 中将 少将 元帅 司令 上校 队长 教练 大使 皇帝 国王 女王 王子
    公主 公爵 侯爵 伯爵 子爵 男爵 爵士 神父 牧师 主教 教皇 法师 大师 丞相 太守 都督 刺史
    太尉 司徒 太傅 同志 老板 师傅 同学
""".split()
"""Forms of address and titles that follow a name, longest first."""

_ADDRESS = re.compile(rf"(?P<name>[{HAN_LETTERS}·]+?) ?(?:{'|'.join(_ADDRESSES)})")
_PLACE = re.compile("[省市县区镇乡村州国江河湖海山岛路街站港湾城寺庙宫院校厂司局部队党军报社]$")
"""Last characters of places and organizations, which may begin like a surname: 黄河, 马路, 高院."""

_CHINESE = re.compile(f"[{HAN_LETTERS}]+")
LONGEST_PERSON = 4
"""Maximum length of a Chinese person's name, in characters."""


def without_chinese_address(form: str) -> str:
    """Remove a form of address from the end of a name, but keep at least one character.

    >>> without_chinese_address("李先生"), without_chinese_address("奥巴马总统")
    ('李', '奥巴马')
    """
    match = _ADDRESS.fullmatch(form)
    return form if match is None else match["name"]


def chinese_aliases(name: str) -> Iterator[str]:
    """Yield the aliases of a name in Chinese characters.

    Of a transliterated name, that is its last part: 奥巴马 for 巴拉克·奥巴马. Of a name of up to
    four characters that begins with a surname, these are the surname, which forms of address
    follow (李先生), and a given name of two characters. A courtesy name is another name.

    >>> list(chinese_aliases("王浩然")), list(chinese_aliases("巴拉克·奥巴马"))
    (['王', '浩然'], ['奥巴马'])
    """
    first, _, last = name.rpartition("·")
    if first:
        if len(last) > 1 and _CHINESE.search(last):
            yield last
        return
    if not 1 < len(name) <= LONGEST_PERSON or not _CHINESE.fullmatch(name) or _PLACE.search(name):
        return
    length = 2 if name[:2] in _COMPOUND_SURNAMES else 1
    surname, given = name[:length], name[length:]
    if not given or (length == 1 and surname not in _SURNAMES):
        return
    yield surname
    if len(given) == 2:  # noqa: PLR2004 - one character is too ambiguous
        yield given
