"""A session in Japanese, with Greek and Cyrillic text in its files: every character costs more, and nothing may be
translated away."""

from __future__ import annotations

from benchmarks.histories.story import Story, plan, probe, read, sh, step, turn, write

_MENU = """\
# 喫茶ひばり お品書き

- 珈琲 450円
- 紅茶 420円
- 抹茶ラテ 580円
- 苺のショートケーキ 520円
- 季節のタルト 560円
"""

_GREEK = """\
# Καφετέρια Χιμπάρι

- Καφές 3,20 €
- Τσάι 3,00 €
- Κέικ με φράουλες 4,10 €
"""

_RUSSIAN = """\
# Кафе «Хибари»

- Кофе 290 ₽
- Чай 260 ₽
- Торт с клубникой 410 ₽
"""

_NEWS = """\
# お知らせ

五月三日から五月五日まで休業いたします。六日から通常どおり営業いたします。
夏の新作「柚子ソーダ」は六月一日に始まります。ご予約は電話でお願いいたします。
団体のお客様(八名以上)は三日前までにご連絡ください。店内は全席禁煙です。
"""

_CHECK = """\
#!/bin/sh
# Says which pages lack a heading or hold a tab.
status=0
for page in pages/*.md; do
    head -n 1 "$page" | grep -q '^# ' || { echo "見出しがありません: $page"; status=1; }
    if grep -q "$(printf '\\t')" "$page"; then echo "タブがあります: $page"; status=1; fi
done
exit $status
"""

_ITEMS = ("お品書きを書く", "お知らせを書く", "確認スクリプト", "翻訳を加える", "予約ページ")

OTHER_SCRIPTS = Story(
    "other_scripts",
    "The pages of a café, asked for in Japanese, with a Greek and a Russian menu beside the Japanese one.",
    (
        turn(
            "喫茶店「ひばり」のウェブページを作ってください。pages/menu.md にお品書き、pages/news.md にお知らせを書きます。"
            "文体は「です・ます」でお願いします。絵文字は使わないでください。値段は税込みです。",
            step("計画を立てて、お品書きから始めます。", plan(0, *_ITEMS), write("pages/menu.md", _MENU)),
            step("お知らせを書きます。", plan(1, *_ITEMS), write("pages/news.md", _NEWS)),
            step("二つのページを読み直します。", read("pages/menu.md"), read("pages/news.md")),
            step(
                "ページを確認するスクリプトを作ります。",
                plan(2, *_ITEMS),
                write("check.sh", _CHECK),
                sh("sh check.sh; echo 状態 $?"),
            ),
            step(
                "試しにタブを入れて、確認が働くか見ます。", sh("printf '\\t余分な行\\n' >> pages/news.md; sh check.sh")
            ),
            step(
                "「タブがあります: pages/news.md」と出て、状態は1でした。確認は働いています。余分な行を消します。",
                sh("sed '$d' pages/news.md > tmp && mv tmp pages/news.md; sh check.sh && echo 問題なし"),
            ),
            step("お品書きとお知らせができました。check.sh で確認もできます。"),
        ),
        turn(
            "ありがとうございます。「季節のタルト」はやめます。代わりに「柚子のタルト」を590円で入れてください。"
            "それから、ギリシャ語とロシア語のお品書きも加えてください。英語は要りません。",
            step(
                "まずお品書きを直します。",
                sh(
                    "awk '{ sub(/季節のタルト 560円/, \"柚子のタルト 590円\"); print }' pages/menu.md > tmp && mv tmp pages/menu.md; cat pages/menu.md"
                ),
            ),
            step(
                "翻訳を加えます。",
                plan(3, *_ITEMS),
                write("pages/menu.el.md", _GREEK),
                write("pages/menu.ru.md", _RUSSIAN),
            ),
            step(
                "文字数を見ます。", sh("wc -m pages/*.md; grep -c '€' pages/menu.el.md; grep -c '₽' pages/menu.ru.md")
            ),
            step(
                "ファイルの文字コードを確かめます。iconv で UTF-16 に変えて戻します。",
                sh(
                    'for f in pages/*.md; do iconv -f UTF-8 -t UTF-16 $f | iconv -f UTF-16 -t UTF-8 | cmp - $f && echo "$f 同じ"; done'
                ),
            ),
            step("ギリシャ語は pages/menu.el.md、ロシア語は pages/menu.ru.md です。英語はありません。"),
        ),
        turn(
            "次に pages/yoyaku.md に予約のページを作ってください。電話番号は 03-5550-0147、受付は午前十時から午後六時までです。"
            "月曜日は定休日です。予約は電話だけで、メールでは受けません。",
            step(
                "似た書き方にするため、お知らせをもう一度読みます。",
                plan(4, *_ITEMS),
                read("pages/news.md"),
                sh("ls pages"),
            ),
            step(
                "お知らせには「ご予約は電話で」とあります。予約ページはまだありません。書く前に確認を一度動かします。",
                sh("sh check.sh; echo 状態 $?; ls pages/yoyaku.md"),
            ),
            cut=True,
        ),
    ),
    (
        probe("task", "お店の名前は何ですか。", "ひばり"),
        probe("task", "文章に使ってはいけないものは何ですか。", "絵文字"),
        probe("files", "ギリシャ語とロシア語のお品書きはどのファイルにありますか。", "menu.el.md", "menu.ru.md"),
        probe("files", "ページを確認するスクリプトの名前は何ですか。", "check.sh"),
        probe("decisions", "「季節のタルト」の代わりに何を、いくらで入れましたか。", "柚子のタルト", "590"),
        probe("decisions", "どの言語のお品書きは要らないと言われましたか。", ("英語", "English")),
        probe("errors", "確認を試したとき、どのファイルに何があると出ましたか。", "pages/news.md", ("タブ", "tab")),
        probe("next_step", "次に書くファイルはどれで、電話番号は何番ですか。", "yoyaku.md", "03-5550-0147"),
    ),
)
