// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "shellscripts.h"

#include "options.h"

using namespace Qt::StringLiterals;

namespace Cli {

namespace {

/// What completes the operands of a command.
enum class Operand { None, Name, Names, NameAndProgram, Word };

Operand operandOf(Command command)
{
    switch (command) {
    case Command::Run:
        return Operand::NameAndProgram;
    case Command::Hold:
    case Command::Acquire:
    case Command::Renew:
    case Command::Release:
    case Command::List:
    case Command::Watch:
        return Operand::Name;
    case Command::Show:
        return Operand::Names;
    case Command::Doctor:
        return Operand::None;
    case Command::Completion:
    case Command::Help:
        return Operand::Word;
    }
    return Operand::None;
}

/// Those of Operand::Word.
QStringList operandWords(Command command)
{
    if (command == Command::Completion)
        return completionShells();
    QStringList names;
    for (const CommandInfo &row : commands())
        names += QString::fromUtf8(row.name);
    return names;
}

QString utf8(const char *text)
{
    return QString::fromUtf8(text);
}

/// "--lease", and "-w" where there is a short name, too. `run … -c` has its own place, behind the name of the lock.
QStringList spellings(const OptionInfo &option)
{
    QStringList words;
    if (option.shortName)
        words += u'-' + QString(QLatin1Char(option.shortName));
    words += u"--"_s + utf8(option.name);
    return words;
}

bool isFor(const OptionInfo &option, const CommandInfo &command)
{
    return option.isFor(command.command) && option.option != Option::ShellCommand;
}

bool isForNoCommand(const OptionInfo &option)
{
    return option.isGlobal();
}

/// \a template with the generated parts in the place of @NAME@.
QString filled(QString text, const QList<std::pair<QString, QString>> &parts)
{
    for (const auto &[name, value] : parts)
        text.replace(u'@' + name + u'@', value);
    return text;
}

const char *const BashTemplate = R"bash(# Completion of qdistlock for bash, printed by `qdistlock completion bash`.
# It asks the server for the names of locks, for a second at most.

_qdistlock_names()
{
    qdistlock "${server[@]}" --quiet --connect-timeout 1s ls --names 2>/dev/null </dev/null
}

# The lines of standard input, as they are: a name may contain anything.
_qdistlock_reply()
{
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        [[ $line == "$1"* ]] && COMPREPLY+=("$line")
    done
}

_qdistlock()
{
    # Bash separates words at ':' and '=', which names and URLs contain: separate them at spaces only.
    local line=${COMP_LINE:0:COMP_POINT}
    local -a words server=()
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=('')
    local last=$((${#words[@]} - 1))
    local current=${words[last]} command='' operands=0 value='' ended='' i

    for ((i = 1; i < last; i++)); do
        local word=${words[i]}
        if [[ -n $value ]]; then
            case $value in --server | --prefix) server+=("$value" "$word") ;; esac
            value=''
        elif [[ -z $ended && $word == -- ]]; then
            ended=1
        elif [[ -z $ended && $word == -?* ]]; then
            case $word in
                --server=* | --prefix=*) server+=("$word") ;;
                @VALUES@) value=$word ;;
            esac
        elif [[ -z $command ]]; then
            command=$word
        else
            operands=$((operands + 1))
            if [[ $command == run ]]; then
                break
            fi
        fi
    done

    COMPREPLY=()
    if [[ $command == run && $operands -gt 0 ]]; then
        # Everything that follows the name of the lock is another command.
        if ((i + 1 == last)) || [[ $((i + 2)) -eq $last && ${words[i + 1]} == -- ]]; then
            _qdistlock_reply '' < <(compgen -c -- "$current")
        else
            _qdistlock_reply '' < <(compgen -f -- "$current")
        fi
        return
    fi
    if [[ -z $value && -z $ended && $current == --*=* ]]; then
        value=${current%%=*}
        current=${current#*=}
    fi
    local -a choices=()
    if [[ -n $value ]]; then
        case $value in
@CHOICES@            @FILES@)
                _qdistlock_reply '' < <(compgen -f -- "$current")
                return
                ;;
            *) return ;;
        esac
    elif [[ -z $ended && $current == -* ]]; then
        case $command in
@OPTIONS@        esac
    else
        case $command in
            '') choices=(@COMMANDS@) ;;
@OPERANDS@        esac
    fi
    if ((${#choices[@]})); then
        _qdistlock_reply "$current" < <(printf '%s\n' "${choices[@]}")
    fi
    # Bash replaces only the text after the last ':' or '='.
    local kept=${current%"${current##*[=:]}"}
    if [[ -n $kept && $COMP_WORDBREAKS == *:* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"$kept"}")
    fi
}

complete -o filenames -o bashdefault -F _qdistlock qdistlock
)bash";

QString bashScript()
{
    QString choices;
    QStringList values;
    QStringList files;
    for (const OptionInfo &option : options()) {
        if (option.kind == ValueKind::None || option.option == Option::ShellCommand)
            continue;
        values += spellings(option);
        if (option.kind == ValueKind::Choice)
            choices += u"            %1) choices=(%2) ;;\n"_s.arg(spellings(option).join(u" | "_s),
                                                                  option.choiceList().join(u' '));
        else if (option.kind == ValueKind::File)
            files += spellings(option);
    }
    QStringList names;
    QString optionCases;
    QString operandCases;
    const auto optionCase = [](const QString &command, auto isWanted) {
        QStringList words;
        for (const OptionInfo &option : options()) {
            if (isWanted(option))
                words += spellings(option);
        }
        return u"            %1) choices=(%2) ;;\n"_s.arg(command, words.join(u' '));
    };
    optionCases += optionCase(u"''"_s, isForNoCommand);
    for (const CommandInfo &command : commands()) {
        const QString name = utf8(command.name);
        names += name;
        optionCases += optionCase(name, [&command](const OptionInfo &option) { return isFor(option, command); });
        switch (operandOf(command.command)) {
        case Operand::None:
            operandCases += u"            %1) ;;\n"_s.arg(name);
            break;
        case Operand::Word:
            operandCases += u"            %1) ((operands == 0)) && choices=(%2) ;;\n"_s.arg(
                    name, operandWords(command.command).join(u' '));
            break;
        case Operand::Names:
            operandCases += u"            %1) _qdistlock_reply \"$current\" < <(_qdistlock_names) ;;\n"_s.arg(name);
            break;
        case Operand::Name:
        case Operand::NameAndProgram:
            operandCases +=
                    u"            %1) ((operands == 0)) && _qdistlock_reply \"$current\" < <(_qdistlock_names) ;;\n"_s
                            .arg(name);
            break;
        }
    }
    return filled(utf8(BashTemplate),
                  {{u"VALUES"_s, values.join(u" | "_s)},
                   {u"CHOICES"_s, choices},
                   {u"FILES"_s, files.join(u" | "_s)},
                   {u"OPTIONS"_s, optionCases},
                   {u"OPERANDS"_s, operandCases},
                   {u"COMMANDS"_s, names.join(u' ')}});
}

const char *const ZshTemplate = R"zsh(#compdef qdistlock
# Completion of qdistlock for zsh, printed by `qdistlock completion zsh`.
# It asks the server for the names of locks, for a second at most.

_qdistlock_names() {
  local -a names server
  local i
  for ((i = 2; i < $#qdistlock_words; i++)); do
    case $qdistlock_words[i] in
      (--server | --prefix) server+=($qdistlock_words[i] $qdistlock_words[i + 1]) ;;
      (--server=* | --prefix=*) server+=($qdistlock_words[i]) ;;
    esac
  done
  names=(${(f)"$(qdistlock $server --quiet --connect-timeout 1s ls --names 2>/dev/null </dev/null)"})
  compadd -a names
}

_qdistlock_run() {
  if ((CURRENT == 1)); then
    _qdistlock_names
  else
    shift words
    ((CURRENT--))
    if [[ $words[1] == (--|-c|--command) ]]; then
      shift words
      ((CURRENT--))
    fi
    _normal
  fi
}

_qdistlock() {
  local curcontext=$curcontext state line ret=1
  local -a qdistlock_words global
  qdistlock_words=($words)
  global=(
@GLOBAL@  )
  _arguments -C -S $global '1: :->command' '*:: :->arguments' && ret=0
  case $state in
    (command)
      local -a commands
      commands=(
@COMMANDS@      )
      _describe -t commands command commands && ret=0
      ;;
    (arguments)
      curcontext=${curcontext%:*:*}:qdistlock-$words[1]:
      case $words[1] in
@CASES@      esac
      ;;
  esac
  return ret
}

if [[ $funcstack[1] == _qdistlock ]]; then
  _qdistlock "$@"
else
  compdef _qdistlock qdistlock
fi
)zsh";

/// \a text in single quotation marks, with \a special characters escaped by a backslash.
QString zshQuoted(const QString &text, const QString &special = {})
{
    QString result;
    for (const QChar c : text) {
        if (special.contains(c))
            result += u'\\';
        result += c == u'\'' ? u"'\\''"_s : QString(c);
    }
    return u'\'' + result + u'\'';
}

/// One line for _arguments.
QString zshSpec(const OptionInfo &option)
{
    const QStringList words = spellings(option);
    QString action;
    if (option.kind == ValueKind::Choice)
        action = u":%1:(%2)"_s.arg(utf8(option.valueName), option.choiceList().join(u' '));
    else if (option.kind == ValueKind::File)
        action = u":%1:_files"_s.arg(utf8(option.valueName));
    else if (option.kind != ValueKind::None)
        action = u":%1: "_s.arg(utf8(option.valueName));
    const QString help = zshQuoted(u'[' + utf8(option.help) + u']', u":\\"_s);
    const QString rest = help.chopped(1) + action + u'\'';
    if (words.size() == 1)
        return u"'%1%2"_s.arg(words.first() + (option.kind == ValueKind::None ? QString() : u"="_s), rest.sliced(1));
    const QString forms = option.kind == ValueKind::None ? words.join(u',')
                                                         : u"%1+,%2="_s.arg(words.first(), words.last());
    return u"'(%1)'{%2}%3"_s.arg(words.join(u' '), forms, rest);
}

QString zshScript()
{
    QString global;
    for (const OptionInfo &option : options()) {
        if (option.isGlobal())
            global += u"    %1\n"_s.arg(zshSpec(option));
    }
    QString names;
    QString cases;
    for (const CommandInfo &command : commands()) {
        const QString name = utf8(command.name);
        names += u"        %1\n"_s.arg(zshQuoted(name + u':' + utf8(command.summary)));
        QString specs;
        for (const OptionInfo &option : options()) {
            if (isFor(option, command) && !option.isGlobal())
                specs += u"            %1 \\\n"_s.arg(zshSpec(option));
        }
        QString operands;
        switch (operandOf(command.command)) {
        case Operand::None:
            break;
        case Operand::Name:
            operands = u" '1:name:_qdistlock_names'"_s;
            break;
        case Operand::Names:
            operands = u" '*:name:_qdistlock_names'"_s;
            break;
        case Operand::NameAndProgram:
            operands = u" '*:: :_qdistlock_run'"_s;
            break;
        case Operand::Word:
            operands = u" '1:word:(%1)'"_s.arg(operandWords(command.command).join(u' '));
            break;
        }
        cases += u"        (%1)\n          _arguments -S \\\n%2            $global%3 && ret=0\n          ;;\n"_s.arg(
                name, specs, operands);
    }
    return filled(utf8(ZshTemplate), {{u"GLOBAL"_s, global}, {u"COMMANDS"_s, names}, {u"CASES"_s, cases}});
}

const char *const FishTemplate = R"fish(# Completion of qdistlock for fish, printed by `qdistlock completion fish`.
# It asks the server for the names of locks, for a second at most.

function __qdistlock_names
    set -l server
    set -l words (commandline -opc)
    for i in (seq 2 (count $words))
        switch $words[$i]
            case --server --prefix
                set -l next (math $i + 1)
                if test $next -le (count $words)
                    set -a server $words[$i] $words[$next]
                end
            case '--server=*' '--prefix=*'
                set -a server $words[$i]
        end
    end
    qdistlock $server --quiet --connect-timeout 1s ls --names 2>/dev/null </dev/null
end

# The operands so far: the command, the name of the lock, and what follows.
function __qdistlock_operands
    set -l value ''
    set -l words (commandline -opc)
    for word in $words[2..-1]
        if test -n "$value"
            set value ''
            continue
        end
        switch $word
            case @VALUES@
                set value $word
            case '-*'
            case '*'
                echo $word
        end
    end
end

function __qdistlock_needs_command
    test (count (__qdistlock_operands)) -eq 0
end

function __qdistlock_uses
    set -l operands (__qdistlock_operands)
    test (count $operands) -ge 1; and contains -- $operands[1] $argv; or return 1
    # Everything that follows the name of the lock is another command.
    test "$operands[1]" != run -o (count $operands) -eq 1
end

function __qdistlock_needs_name
    __qdistlock_uses $argv; and test (count (__qdistlock_operands)) -eq 1
end

function __qdistlock_needs_program
    set -l operands (__qdistlock_operands)
    test (count $operands) -ge 2; and test "$operands[1]" = run
end

function __qdistlock_program
    # What comes before the program: the words up to the name of the lock, and perhaps "--".
    set -l words (commandline -opc)
    set -l name (__qdistlock_operands)[2]
    set -l skip (contains -i -- $name $words)
    set -l next (math $skip + 1)
    if test "$words[$next]" = --
        set skip $next
    end
    __fish_complete_subcommand --fcs-skip=$skip
end

complete -c qdistlock -f
complete -c qdistlock -n __qdistlock_needs_program -x -a '(__qdistlock_program)'
)fish";

QString fishQuoted(QString text)
{
    text.replace(u'\\', u"\\\\"_s);
    text.replace(u'\'', u"\\'"_s);
    return u'\'' + text + u'\'';
}

QString fishOption(const OptionInfo &option, const QString &condition)
{
    QString line = u"complete -c qdistlock -n %1"_s.arg(fishQuoted(condition));
    if (option.shortName)
        line += u" -s "_s + QLatin1Char(option.shortName);
    line += u" -l "_s + utf8(option.name);
    if (option.kind == ValueKind::Choice)
        line += u" -x -a "_s + fishQuoted(option.choiceList().join(u' '));
    else if (option.kind == ValueKind::File)
        line += u" -r -F"_s;
    else if (option.kind != ValueKind::None)
        line += u" -x"_s;
    return line + u" -d "_s + fishQuoted(utf8(option.help)) + u'\n';
}

QString fishScript()
{
    QStringList values;
    for (const OptionInfo &option : options()) {
        if (option.kind != ValueKind::None && option.option != Option::ShellCommand)
            values += spellings(option);
    }
    QString text = filled(utf8(FishTemplate), {{u"VALUES"_s, values.join(u' ')}});
    QStringList all;
    QStringList named;
    for (const CommandInfo &command : commands()) {
        const QString name = utf8(command.name);
        all += name;
        text += u"complete -c qdistlock -n __qdistlock_needs_command -a %1 -d %2\n"_s.arg(
                name, fishQuoted(utf8(command.summary)));
        switch (operandOf(command.command)) {
        case Operand::None:
            break;
        case Operand::Word:
            text += u"complete -c qdistlock -n '__qdistlock_needs_name %1' -a %2\n"_s.arg(
                    name, fishQuoted(operandWords(command.command).join(u' ')));
            break;
        case Operand::Names:
            text += u"complete -c qdistlock -n '__qdistlock_uses %1' -a '(__qdistlock_names)'\n"_s.arg(name);
            break;
        case Operand::Name:
        case Operand::NameAndProgram:
            named += name;
            break;
        }
    }
    text += u"complete -c qdistlock -n '__qdistlock_needs_name %1' -a '(__qdistlock_names)'\n"_s.arg(named.join(u' '));
    for (const OptionInfo &option : options()) {
        if (option.option == Option::ShellCommand)
            continue;
        QStringList users;
        for (const CommandInfo &command : commands()) {
            if (isFor(option, command))
                users += utf8(command.name);
        }
        if (option.isGlobal())
            text += fishOption(option, u"__qdistlock_needs_command"_s);
        text += fishOption(option, u"__qdistlock_uses "_s + users.join(u' '));
    }
    return text;
}

} // namespace

QStringList completionShells()
{
    return {u"bash"_s, u"zsh"_s, u"fish"_s};
}

QString completionScript(const QString &shell)
{
    if (shell == u"bash")
        return bashScript();
    if (shell == u"zsh")
        return zshScript();
    return shell == u"fish" ? fishScript() : QString();
}

} // namespace Cli
