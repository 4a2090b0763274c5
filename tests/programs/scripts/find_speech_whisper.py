"""The detector of speech inside faster-whisper: prints the spans of speech as JSON."""

import json

from faster_whisper.vad import VadOptions, get_speech_timestamps
from sound import speech

print(json.dumps(get_speech_timestamps(speech(), VadOptions(min_silence_duration_ms=100))))
