# An agent that speaks the Agent Client Protocol and behaves as its prompts say: the first
# word that it knows in a prompt decides. It reads JSON by patterns, and answers one line
# at a time.

say() { printf '%s\n' "$1"; }
update() { say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":'"$1"'}}'; }
words() { update '{"sessionUpdate":"agent_message_chunk","messageId":"'"$1"'","content":{"type":"text","text":"'"$2"'"}}'; }
done_with() { say '{"jsonrpc":"2.0","id":'"$1"',"result":{"stopReason":"'"$2"'"}}'; }
ask() {
    say '{"jsonrpc":"2.0","id":'"$1"',"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"c'"$1"'","title":"touch made","kind":"execute","rawInput":{"command":"touch made"}},"options":[{"optionId":"yes","name":"Yes","kind":"allow_once"},{"optionId":"no","name":"No","kind":"reject_once"}]}}'
}

turn=
number=0
while IFS= read -r line; do
    id=${line#*'"id":'}
    id=${id%%[,\}]*}
    case $line in
    *'"method":"initialize"'*)
        say 'odd agent, version 1'
        say '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":1,"agentInfo":{"name":"odd","title":"Odd","version":"1"}}}'
        ;;
    *'"method":"session/new"'*)
        say '{"jsonrpc":"2.0","id":'"$id"',"result":{"sessionId":"s1"}}'
        ;;
    *'"method":"session/cancel"'*)
        words cut 'I was cut.'
        until [ ! -e held ]; do sleep 0.02; done
        done_with "$turn" cancelled
        ;;
    *'"method":"session/prompt"'*)
        turn=$id
        number=$((number + 1))
        case $line in
        *'denied it'*)
            words "m$number" 'I do without it.'
            done_with "$turn" end_turn
            ;;
        *'the wall falls'*)
            words "m$number" 'I have stopped.'
            done_with "$turn" end_turn
            ;;
        *'flood'*)
            words before 'not the answer'
            update '{"sessionUpdate":"tool_call","toolCallId":"c","title":"count","kind":"other"}'
            # Ten thousand numbers are the answer, between updates that mean nothing.
            seq 10000 | while read -r n; do
                words flood "$n\\n"
                for _ in 1 2 3 4 5 6 7 8 9; do
                    update '{"sessionUpdate":"usage_update","used":1,"size":2}'
                done
            done
            done_with "$turn" end_turn
            ;;
        *'rubbish'*)
            say 'Warning: this is not JSON'
            printf '\377\376\000{"jsonrpc"\n'
            say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"from_the_future","x":[1]}}}'
            say '{"jsonrpc":"2.0","id":77,"result":{"stopReason":"end_turn"}}'
            say '{"jsonrpc":"2.0","id":5,"method":"fs/read_text_file","params":{"path":"/etc/passwd"}}'
            ;;
        *'crash'*)
            words "m$number" 'I fall'
            echo 'no memory left' >&2
            exit 3
            ;;
        *'must ask'*) ask "$number" ;;
        *'taken back'*)
            until [ ! -e slow ]; do sleep 0.02; done
            words "m$number" 'I have gone on.'
            done_with "$turn" end_turn
            ;;
        *'wait for ever'*)
            update '{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"I wait."}}'
            ;;
        *)
            words "m$number" 'Done.'
            done_with "$turn" end_turn
            ;;
        esac
        ;;
    # The answer to the request for a file.
    *'"id":5,'*'"error":'*)
        words "m$number" 'I got an error for my request, and go on.'
        done_with "$turn" end_turn
        ;;
    *'"optionId":"yes"'*)
        words "m$number" 'It is made.'
        done_with "$turn" end_turn
        ;;
    # It ends its turn at a denial, as OpenCode does.
    *'"optionId":"no"'*) done_with "$turn" end_turn ;;
    esac
done
