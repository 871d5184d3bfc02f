"""Language codes that tokenizer classes know by heart, in the order of their ids (transformers 5.24). Data only."""

from __future__ import annotations

_MBART = (
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM "
    "ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN"
)
_MBART50 = (
    "af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE "
    "sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI"
)
_M2M100 = (
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr "
    "ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa "
    "pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
)
_WMT21 = "en ha is ja cs ru zh de"
_MUSTC = "pt fr ru nl ro it es de"
_PLBART = ("__java__", "__python__", "__en_XX__")

MBART = tuple(_MBART.split())
MBART50 = (*MBART, *_MBART50.split())
M2M100 = {
    "m2m100": tuple(f"__{code}__" for code in _M2M100.split()),
    "wmt21": tuple(f"__{code}__" for code in _WMT21.split()),
}
"""By the value of `language_codes`."""
PLBART = {
    "base": (*_PLBART, "{mask}"),
    "multi": (*_PLBART, "__javascript__", "__php__", "__ruby__", "__go__"),
}
"""By the value of `language_codes`; only with the first does the class give <mask> an id."""
MUSTC = {"mustc": tuple(f"<lang:{code}>" for code in _MUSTC.split())}
"""By the value of `lang_codes`."""
